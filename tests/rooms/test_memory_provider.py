"""An authority in memory: what its operator does to it, and what its members see."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from trio_reactor.errors import Closed, Lost
from trio_reactor.rooms.errors import ConnectionRefused, RoomNotReadable, RoomRefused
from trio_reactor.rooms.model.answers import (
    Accepted,
    Advanced,
    BeyondHorizon,
    Current,
    Discontinued,
    Expired,
    Page,
    Retry,
    Unknown,
)
from trio_reactor.rooms.model.checking import check_advanced, check_page
from trio_reactor.rooms.model.edits import Move, Put, Submission
from trio_reactor.rooms.model.entries import Document
from trio_reactor.rooms.provider.memory import (
    MemoryAuthority,
    MemoryLink,
    MemoryOptions,
    MemoryProvider,
)
from trio_reactor.rooms.provider.protocol import (
    Acting,
    Announced,
    Client,
    Conversing,
    Historic,
    Holding,
    Link,
    Relisted,
    Revoked,
    Storing,
    Writing,
)
from trio_reactor.world import SeededWorld


def an_authority(**options: object) -> MemoryAuthority:
    authority = MemoryAuthority(world=SeededWorld(1), options=MemoryOptions(**options))  # type: ignore[arg-type]
    authority.create("plans")
    authority.grant("ada", "plans")
    return authority


@asynccontextmanager
async def linked(authority: MemoryAuthority, member: str = "ada") -> AsyncGenerator[MemoryLink]:
    async with MemoryProvider(authority, member=member).connect(Client("store")) as link:
        yield link


async def all_of(authority: MemoryAuthority, link: Link) -> tuple[int, dict[str, object], int]:
    """The room read page by page, each page of which can be believed; and how many there were."""
    held: dict[str, object] = {}
    token, number, transfer, version = None, 0, None, None
    while True:
        page = await link.bootstrap("plans", "", token)
        assert isinstance(page, Page)
        limits = authority.limits
        check_page(
            page, room="plans", transfer=transfer, number=number, version=version, limits=limits
        )
        for path in page.removed:
            held.pop(path, None)
        held.update((entry.path, entry) for entry in page.entries)
        if page.next is None:
            return page.version, held, number + 1
        token, number, transfer, version = page.next, number + 1, page.transfer, page.version
        authority.put("plans", f"late-{number}.md", "written while it is read")
        authority.put("plans", "a.md", f"changed {number}")
        if number == 1:
            authority.delete("plans", "b.md")


async def test_its_link_is_all_that_a_link_can_be(autojump_clock: object) -> None:
    async with linked(an_authority()) as link:
        for capability in (Historic, Storing, Conversing, Acting):
            assert isinstance(link, capability)


async def test_a_snapshot_is_of_the_version_at_which_it_was_begun(autojump_clock: object) -> None:
    authority = an_authority(page_size=2)
    for name in "abcde":
        authority.put("plans", f"{name}.md", name)
    before = dict(authority.room("plans").entries)
    async with linked(authority) as link:
        assert await all_of(authority, link) == (5, before, 3)
        found = await link.refresh("plans", 5)
        assert isinstance(found, Advanced)
        check_advanced(found, room="plans", since=5, limits=authority.limits)


async def test_a_replay_is_of_the_version_that_its_last_page_names(autojump_clock: object) -> None:
    authority = an_authority(page_size=2, paging="replay")
    for name in "abcde":
        authority.put("plans", f"{name}.md", name)
    room, held = authority.room("plans"), dict[str, object]()
    meanwhile = iter(["f.md", "a.md", "b.md"])
    async with linked(authority) as link:
        page = await link.bootstrap("plans", "", None)
        while isinstance(page, Page):
            for path in page.removed:
                del held[path]
            held.update((entry.path, entry) for entry in page.entries)
            if page.next is None:
                break
            path = next(meanwhile, None)
            if path is not None:
                authority.put("plans", path, "written while it is read")
            elif "c.md" in room.entries:
                authority.delete("plans", "c.md")
            page = await link.bootstrap("plans", "", page.next)
    assert isinstance(page, Page)
    assert page.version == room.version == 9
    assert held == room.entries


async def test_a_replay_whose_steps_were_trimmed_is_discontinued(autojump_clock: object) -> None:
    authority = an_authority(page_size=1, paging="replay")
    authority.put("plans", "a.md", "a")
    authority.put("plans", "b.md", "b")
    async with linked(authority) as link:
        page = await link.bootstrap("plans", "", None)
        assert isinstance(page, Page)
        authority.put("plans", "c.md", "c")
        authority.trim("plans", 3)
        while isinstance(page, Page):
            assert page.next is not None
            page = await link.bootstrap("plans", "", page.next)
    assert page == Discontinued()


async def test_the_log_forgets_its_oldest_steps_beyond_its_bound(autojump_clock: object) -> None:
    authority = an_authority(max_log=2)
    for text in "abc":
        authority.put("plans", "a.md", text)
    async with linked(authority) as link:
        assert await link.refresh("plans", 0) == BeyondHorizon("plans")
        found = await link.refresh("plans", 1)
        assert found == Advanced("plans", 1, 3, (Document("a.md", 3, "c"),), ())
        assert await link.refresh("plans", 3) == Current("plans", 3)
        assert await link.refresh("plans", 4) == BeyondHorizon("plans")


async def test_of_more_transfers_than_are_kept_the_one_asked_for_longest_ago_ends(
    autojump_clock: object,
) -> None:
    authority = an_authority(page_size=1, max_transfers=2)
    authority.put("plans", "a.md", "a")
    authority.put("plans", "b.md", "b")
    async with linked(authority) as link:
        pages = [await link.bootstrap("plans", "", None) for _ in range(2)]
        tokens = [page.next for page in pages if isinstance(page, Page)]
        assert isinstance(await link.bootstrap("plans", "", tokens[0]), Page)
        await link.bootstrap("plans", "", None)
        assert isinstance(await link.bootstrap("plans", "", tokens[0]), Page)
        assert await link.bootstrap("plans", "", tokens[1]) == Discontinued()


@pytest.mark.parametrize("token", ["", "x", "[]", '["transfer-1",0,"",0,0]', "\ud800", "{}"])
async def test_a_token_that_is_none_of_its_own_is_discontinued(
    autojump_clock: object, token: str
) -> None:
    async with linked(an_authority()) as link:
        assert await link.bootstrap("plans", "", token) == Discontinued()


async def test_a_removed_room_is_revoked_and_one_of_its_name_begins_later(
    autojump_clock: object,
) -> None:
    authority = an_authority()
    authority.put("plans", "a.md", "a")
    async with linked(authority) as link:
        await link.hold(Holding({"plans": 1}, {}))
        authority.remove("plans")
        assert link.announcements is link.events
        assert await link.announcements.receive() == Revoked("plans")
        with pytest.raises(RoomNotReadable):
            await link.refresh("plans", 1)
        authority.create("plans")
        authority.grant("ada", "plans")
        assert await link.announcements.receive() == Relisted()
        assert (await link.discover()).rooms[0].version == 2
        assert await link.refresh("plans", 1) == BeyondHorizon("plans")


async def test_going_back_to_an_old_copy_takes_versions_back_and_loses_links(
    autojump_clock: object,
) -> None:
    authority = an_authority()
    authority.put("plans", "a.md", "old")
    copy = authority.snapshot()
    authority.put("plans", "a.md", "new")
    async with linked(authority) as link:
        before = await link.discover()
        authority.restore(copy)
        with pytest.raises(Lost):
            await link.discover()
        with pytest.raises(Lost):
            await link.announcements.receive()
    async with linked(authority) as link:
        after = await link.discover()
        assert (before.rooms[0].version, after.rooms[0].version) == (2, 1)
        assert after.epoch == before.epoch
        assert await link.refresh("plans", 2) == BeyondHorizon("plans")
    authority.put("plans", "a.md", "other")
    authority.restore(copy)
    assert authority.room("plans").version == 1  # what became of the first is not in the copy
    authority.begin_epoch()
    async with linked(authority) as link:
        assert (await link.discover()).epoch != before.epoch


async def test_whoever_is_refused_or_speaks_another_contract_is_told_why(
    autojump_clock: object,
) -> None:
    authority = an_authority()
    async with linked(authority) as link:
        authority.refuse("ada", reauthorize=True)
        with pytest.raises(Lost):
            await link.discover()
    with pytest.raises(ConnectionRefused) as refused:
        async with linked(authority):
            raise AssertionError("it was let in")
    assert (refused.value.code, refused.value.reauthorize) == ("unauthorized", True)
    authority.admit("ada")
    with pytest.raises(ConnectionRefused) as refused:
        async with MemoryProvider(authority, member="ada").connect(Client("store", contract=2)):
            raise AssertionError("it was let in")
    assert refused.value.code == "contract"
    authority.reachable = False
    with pytest.raises(Lost):
        async with linked(authority):
            raise AssertionError("it was let in")


async def test_a_link_that_was_left_is_closed(autojump_clock: object) -> None:
    authority = an_authority()
    async with linked(authority) as link:
        assert authority.links == 1
    assert authority.links == 0
    with pytest.raises(Closed):
        await link.discover()
    with pytest.raises(Closed):
        await link.announcements.receive()


async def test_that_nobody_may_write_is_said_again_behind_what_was_missed(
    autojump_clock: object,
) -> None:
    authority = an_authority(max_announcements=3)
    async with linked(authority) as link:
        await link.hold(Holding({}, {}))
        authority.halt()
        for text in "abcd":
            authority.put("plans", "a.md", text)
        told = [await link.announcements.receive() for _ in range(3)]
        assert told[:2] == [Relisted(), Writing(allowed=False)]
        assert isinstance(told[2], Announced)
        assert told[2].version == 4


async def test_what_was_announced_of_a_room_is_not_read_once_it_was_revoked(
    autojump_clock: object,
) -> None:
    authority = an_authority()
    async with linked(authority) as link:
        await link.hold(Holding({"plans": 0}, {}))
        authority.put("plans", "a.md", "a secret")
        authority.revoke("ada", "plans")
        assert await link.announcements.receive() == Revoked("plans")


async def test_planned_answers_are_remembered_unless_the_same_may_be_sent_again(
    autojump_clock: object,
) -> None:
    authority = an_authority()
    authority.answer_next("plans", Retry(1.0), Expired())
    submission = Submission("plans", "store", 1, (Put("a.md", "a"),))
    async with linked(authority) as link:
        assert await link.submit(submission) == Retry(1.0)
        assert await link.submit(submission) == Expired()
        assert await link.submit(submission) == Expired()
        following = Submission("plans", "store", 2, (Put("a.md", "a"),))
        assert await link.submit(following) == Accepted(1)
        authority.forget("plans", "store")
        assert await link.submit(following) == Unknown()


async def test_more_clients_than_a_room_remembers_are_refused_not_forgotten(
    autojump_clock: object,
) -> None:
    authority = an_authority(max_clients=1)
    async with linked(authority) as link:
        first = Submission("plans", "one", 1, (Put("a.md", "a"),))
        assert await link.submit(first) == Accepted(1)
        with pytest.raises(RoomRefused):
            await link.submit(Submission("plans", "two", 1, (Put("b.md", "b"),)))
        assert await link.submit(first) == Accepted(1)


async def test_a_selection_that_is_not_granted_is_refused_and_its_transfers_end(
    autojump_clock: object,
) -> None:
    authority = an_authority(page_size=1)
    authority.put("plans", "a.md", "a")
    authority.put("plans", "b.md", "b")
    async with linked(authority) as link:
        page = await link.bootstrap("plans", "", None)
        assert isinstance(page, Page)
        authority.grant("ada", "plans", selection="part")
        assert await link.bootstrap("plans", "", page.next) == Discontinued()
        with pytest.raises(RoomRefused):
            await link.bootstrap("plans", "", None)
        assert await link.bootstrap("plans", "part", page.next) == Discontinued()
        assert (await link.discover()).rooms[0].selection == "part"


async def test_a_document_that_was_moved_is_of_the_new_revision(autojump_clock: object) -> None:
    authority = an_authority()
    authority.put("plans", "a.md", "a")
    assert authority.write("plans", Move("a.md", "A.md", 1)) == Accepted(2)
    assert authority.room("plans").entries == {"A.md": Document("A.md", 2, "a")}
    assert authority.write("plans", Put("a.md", "b")).__class__.__name__ == "Rejected"


@pytest.mark.parametrize("name", ["", "x" * 257, "a\nb"])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    authority = an_authority()
    with pytest.raises(ValueError, match=r"must not|characters|holds"):
        authority.create(name)
    with pytest.raises(ValueError, match=r"must not|characters|holds"):
        authority.grant(name, "plans")
    with pytest.raises(ValueError, match=r"must not|characters|holds"):
        MemoryProvider(authority, member=name)
