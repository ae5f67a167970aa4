"""What all models of options are: frozen, and exact about what they are given.

Whoever misspells an option, or gives seconds as a string, is told so when the options are made, by
name.  Options that were made are valid, and stay what they are.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Options"]


class Options(BaseModel):
    """The base of every model of options; the docstring of an attribute is its description.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )
