"""What the type checkers know of owning; checked by `make check`, never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import assert_type

from trio_reactor import (
    Attempt,
    CloseReport,
    FencedMapping,
    KeyToken,
    Lanes,
    Owner,
    OwnerStatistics,
    SeededWorld,
    SystemWorld,
    Token,
    World,
    open_owner,
)
from trio_reactor.fence import Generations


@asynccontextmanager
async def connection(port: int) -> AsyncGenerator[bytes]:
    yield port.to_bytes(2, "big")


def http() -> AbstractConnection:
    return AbstractConnection()


class AbstractConnection:
    async def __aenter__(self) -> int:
        return 1

    async def __aexit__(self, *_: object) -> None:
        return None


async def worker(name: str, count: int) -> None:
    del name, count


async def holding() -> None:
    async with open_owner("mine") as owner:
        assert_type(owner, Owner)
        attempt = await owner.acquire(lambda: connection(1))
        assert_type(attempt, Attempt[bytes])
        assert_type(attempt.value, bytes)
        assert_type(await attempt.wait_opened(), bytes)
        with owner.using(attempt) as value:
            assert_type(value, bytes)
        async with owner.hold(http) as number:
            assert_type(number, int)
        assert_type(owner.start(http), Attempt[int])
        owner.start_soon(worker, "a", 1)
        owner.start_soon(worker, "a", "b")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - refused
        assert_type(await owner.close(), CloseReport)
        assert_type(owner.statistics(), OwnerStatistics)
        assert_type(owner.failure, BaseException | None)


def worlds() -> tuple[World, World]:
    return SystemWorld(), SeededWorld(1)


def fences() -> None:
    tokens = Generations("x")
    assert_type(tokens.token(), Token)
    mapping: FencedMapping[str, int] = FencedMapping()
    token = mapping.admit("a")
    assert_type(token, KeyToken[str])
    assert_type(mapping.read(token), int | None)
    assert_type(mapping.write(token, 1), bool)
    mapping.write(token, "b")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - refused


async def lanes(owner: Owner) -> None:
    by_key: Lanes[str] = Lanes(start_soon=owner.start_soon)
    async with by_key("a") as entered:
        assert_type(entered, None)
    by_key.start_soon("a", worker, "a", 1)
