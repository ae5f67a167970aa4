"""What MkDocs calls for every page: the markers in it become what the code says.

The code is the one beside this file, whichever is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pages.markers import filled
from pages.names import NotDocumented

__all__ = ["on_page_markdown"]


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """The page with its markers replaced.

    Raises:
        PluginError: If a marker asks for what is not there; the build ends with it.
    """
    try:
        return filled(markdown)
    except NotDocumented as failure:
        raise PluginError(f"{page.file.src_uri}: {failure}") from failure
