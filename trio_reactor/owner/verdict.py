"""What a block raises, when more than one thing went wrong.

Three parties may have failed by the time an owner's block is left: its body, a worker (the owner's
*terminal* failure) and what was still open (the failures of *close*).  Nothing may shadow anything
else, and nothing may be told twice:

===================  ========  ===============  ==================================
body                 terminal  close's failures raised
===================  ========  ===============  ==================================
returned, cancelled  yes       none             the original
returned, cancelled  yes       some             a group: terminal, close's
own error            yes       any              a group: terminal, body's, close's
own error, cancelled no        some             a group: body's, close's
returned             no        some             the group of close's
own error, cancelled no        none             the body's
===================  ========  ===============  ==================================

Pure: it looks at exceptions and raises none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import trio

from trio_reactor.errors import leaves

__all__ = [
    "grouped",
    "only_cancelled",
    "remaining",
    "split_cancelled",
    "stray",
    "verdict",
    "without",
]


def only_cancelled(failure: BaseException) -> bool:
    """Whether it is a cancellation and nothing else."""
    return all(isinstance(leaf, trio.Cancelled) for leaf in leaves(failure))


def without(
    failure: BaseException, dropped: Callable[[BaseException], bool]
) -> BaseException | None:
    """What is left of a failure without the leaves for which this is true; `None` if nothing is."""
    if not isinstance(failure, BaseExceptionGroup):
        return None if dropped(failure) else failure
    group = cast("BaseExceptionGroup[BaseException]", failure)
    if not any(map(dropped, leaves(group))):
        return group
    return group.split(lambda each: not isinstance(each, BaseExceptionGroup) and dropped(each))[1]


def split_cancelled(failure: BaseException) -> BaseException | None:
    """What is left of a failure without its cancellations; `None` if that was all of it."""
    return without(failure, lambda leaf: isinstance(leaf, trio.Cancelled))


def stray(name: str) -> RuntimeError:
    """The defect of letting a cancellation out of where it belongs, such as another task's."""
    return RuntimeError(f"{name} ended with a cancellation that is not its own")


def remaining(
    failures: Iterable[BaseException], told: Iterable[BaseException | None]
) -> list[BaseException]:
    """The failures without anything that `told` holds, each leaf once, in their order."""
    seen = {id(leaf) for failure in told if failure is not None for leaf in leaves(failure)}
    kept: list[BaseException] = []
    for failure in failures:
        rest = without(failure, lambda leaf: id(leaf) in seen)
        if rest is not None:
            kept.append(rest)
            seen.update(map(id, leaves(rest)))
    return kept


def verdict(
    name: str,
    body: BaseException | None,
    terminal: BaseException | None,
    failures: Sequence[BaseException],
) -> BaseException | None:
    """What the block raises, by the table above.

    Args:
        name: The owner's, for the message of a group.
        body: What left the body; `None` if it returned or its cancellation was the owner's.
        terminal: The owner's terminal failure.
        failures: What close has to report.

    Returns:
        The exception to raise: one of those given, or a group of them; `None` to raise nothing.
    """
    own = [] if body is None or only_cancelled(body) else [body]
    rest = remaining(failures, (body, terminal))
    if terminal is not None:
        told = [terminal, *remaining(own, [terminal]), *rest]
        return terminal if len(told) == 1 else grouped(name, told)
    if not rest:
        return body
    return grouped(name, rest if body is None else [body, *rest])


def grouped(name: str, failures: Sequence[BaseException]) -> BaseException:
    """Several failures in one exception."""
    count = sum(not only_cancelled(failure) for failure in failures)
    return BaseExceptionGroup(f"{name}: {count} failure{'s' if count != 1 else ''}", failures)
