"""Where clock, wall time, chance and names come from."""

from __future__ import annotations

import secrets
import time

import pytest
import trio

from trio_reactor.world import SeededWorld, SystemWorld, World

DRAWS = 50


def drawn(world: World) -> tuple[list[float], list[str], list[str]]:
    return (
        [world.random.random() for _ in range(DRAWS)],
        [world.token() for _ in range(DRAWS)],
        [world.identifier(kind) for kind in ("attempt", "clip", "attempt")],
    )


# --------------------------------------------------------------------------------- the seeded world


def test_the_same_seed_draws_the_same_and_another_seed_something_else() -> None:
    assert drawn(SeededWorld(7)) == drawn(SeededWorld(7))
    chance, tokens, names = drawn(SeededWorld(8))
    other_chance, other_tokens, other_names = drawn(SeededWorld(7))
    assert not set(chance) & set(other_chance)
    assert not set(tokens) & set(other_tokens)
    assert names == other_names == ["attempt-1", "clip-1", "attempt-2"]


def test_what_a_seed_draws_never_changes() -> None:
    world = SeededWorld(7)
    assert world.random.random() == 0.32383276483316237
    assert world.token() == "c718d8cc9b75fb3b43346ef0a83c8070"


def test_drawing_chance_shifts_no_token_nor_the_other_way_round() -> None:
    chance, tokens, _ = drawn(SeededWorld(7))
    world = SeededWorld(7)
    mixed = [(world.token(), world.random.random()) for _ in range(DRAWS)]
    assert mixed == list(zip(tokens, chance, strict=True))


async def test_seeded_wall_time_runs_with_the_clock_from_its_epoch(autojump_clock: object) -> None:
    world = SeededWorld(1, epoch=1000.0)
    assert world.clock() == trio.current_time()
    assert world.wall() == 1000.0 + world.clock()
    await trio.sleep(60.0)
    assert world.clock() == trio.current_time()
    assert world.wall() == 1000.0 + world.clock()


async def test_wall_time_can_be_set_forward_and_back_and_the_clock_does_not_follow(
    autojump_clock: object,
) -> None:
    world = SeededWorld(1)
    clock, wall = world.clock(), world.wall()
    world.jump(3600.0)
    assert (world.clock(), world.wall()) == (clock, wall + 3600.0)
    world.jump(-7200.0)
    assert (world.clock(), world.wall()) == (clock, wall - 3600.0)


# ------------------------------------------------------------------------------------- the system's


def test_tokens_of_the_system_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def token_hex(size: int | None = None) -> str:
        asked.append(size)
        return "0f" * 16

    monkeypatch.setattr(secrets, "token_hex", token_hex)
    assert SystemWorld().token() == "0f" * 16
    assert asked == [16]


def test_two_systems_share_neither_chance_nor_tokens() -> None:
    chance, tokens, names = drawn(SystemWorld())
    other_chance, other_tokens, other_names = drawn(SystemWorld())
    assert not set(chance) & set(other_chance)
    assert len({*tokens, *other_tokens}) == 2 * DRAWS
    assert names == other_names == ["attempt-1", "clip-1", "attempt-2"]


async def test_the_systems_clock_is_trios_and_its_wall_time_the_machines(
    autojump_clock: object,
) -> None:
    world = SystemWorld()
    assert world.clock() == trio.current_time()
    await trio.sleep(10.0)
    assert world.clock() == trio.current_time()
    before = time.time()
    assert before <= world.wall() <= time.time()


@pytest.mark.parametrize("world", [SeededWorld(3), SystemWorld()], ids=["seeded", "system"])
def test_tokens_are_32_hexadecimal_digits_and_never_repeat(world: World) -> None:
    tokens = [world.token() for _ in range(1000)]
    assert len(set(tokens)) == 1000
    assert all(len(token) == 32 and set(token) <= set("0123456789abcdef") for token in tokens)


@pytest.mark.parametrize("world", [SeededWorld(3), SystemWorld()], ids=["seeded", "system"])
def test_names_are_unique_and_counted_by_kind(world: World) -> None:
    names = [world.identifier(kind) for kind in ("attempt", "worker") * 100]
    assert len(set(names)) == 200
    assert names[-2:] == ["attempt-100", "worker-100"]
