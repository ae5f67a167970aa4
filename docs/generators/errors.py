"""Errors: what each is, what it says of the operation, and what a caller does about it.

All but the last is the code's.  What a caller does is a person's to say, and stands in the page.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import cast

from trio_reactor.errors import ReactorError

from .names import NotDocumented, cell, described, first_paragraph, table

__all__ = ["errors", "errors_of"]


def errors_of(target: object) -> list[type[ReactorError]]:
    """The public errors that a module defines, or all modules of a package.

    Raises:
        NotDocumented: If the target is no module.
    """
    if not isinstance(target, ModuleType):
        raise NotDocumented(f"{target!r} is no module")
    found: list[type[ReactorError]] = []
    for module in _modules(target):
        public: list[object] = [getattr(module, name) for name in getattr(module, "__all__", [])]
        own = [
            each
            for each in public
            if isinstance(each, type)
            and issubclass(each, ReactorError)
            and each.__module__ == module.__name__
        ]
        found += sorted(own, key=_line)
    return found


def _line(error: type[ReactorError]) -> int:
    """Where it is written: the general come before the special."""
    written = described(f"{error.__module__}.{error.__qualname__}")
    return 0 if written is None else written.lineno or 0


def _modules(root: ModuleType) -> Iterator[ModuleType]:
    yield root
    for found in pkgutil.walk_packages(getattr(root, "__path__", ()), f"{root.__name__}."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def errors(of: list[type[ReactorError]], words: Mapping[str, str] | None = None) -> str:
    """A Markdown table of errors.

    Args:
        of: The errors, in the order in which they are to stand.
        words: What a caller does, by the error's name.

    Raises:
        NotDocumented: If there are words for an error that is not there.
    """
    words = dict(words or {})
    gone = sorted(words.keys() - {each.__name__ for each in of})
    if gone:
        raise NotDocumented(f"words for an error that is not there: {', '.join(gone)}")
    rows = [
        (
            f"`{each.__name__}`",
            ", ".join(f"`{_name(base)}`" for base in each.__bases__ if base is not Exception),
            cell(_meaning(each)),
            _outcome(each),
            cell(words.get(each.__name__, "")),
        )
        for each in of
    ]
    return table(("error", "is a", "what happened", "outcome", "what a caller does"), rows)


def _name(base: type) -> str:
    package = base.__module__.partition(".")[0]
    return base.__qualname__ if package == "trio_reactor" else f"{package}.{base.__qualname__}"


def _outcome(error: type[ReactorError]) -> str:
    """What it says of the operation where it was not told otherwise, which may be always."""
    missing = [
        each for each in inspect.signature(error).parameters.values() if each.default is each.empty
    ]
    by_name = {each.name: "" for each in missing if each.kind is each.KEYWORD_ONLY}
    by_place = ["" for each in missing if each.kind is each.POSITIONAL_OR_KEYWORD]
    made = cast("Callable[..., ReactorError]", error)
    return f"`{made(*by_place, **by_name).outcome}`"


def _meaning(error: type[ReactorError]) -> str:
    written = described(f"{error.__module__}.{error.__qualname__}")
    text = "" if written is None or written.docstring is None else written.docstring.value
    return first_paragraph(text)
