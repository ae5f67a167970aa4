"""What MkDocs calls: markers in a page become what the code says, and pictures are drawn.

The code is the one beside this file, whichever is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pages.markers import filled
from pages.names import NotDocumented
from pages.pictures import PICTURES

__all__ = ["on_files", "on_page_markdown"]


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The files of the site, with the pictures among them."""
    for where, draw in PICTURES.items():
        files.append(File.generated(config, where, content=draw()))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """The page with its markers replaced.

    Raises:
        PluginError: If a marker asks for what is not there; the build ends with it.
    """
    try:
        return filled(markdown)
    except NotDocumented as failure:
        raise PluginError(f"{page.file.src_uri}: {failure}") from failure
