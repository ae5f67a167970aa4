"""What MkDocs calls: markers in a page become what the code says, and pictures are drawn.

The first page is the README, whose links lead from where it stands, beside the docs' directory.

The code is the one beside the docs, whichever is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from docs.generators.markers import filled
from docs.generators.names import NotDocumented
from docs.generators.pictures import PICTURES

__all__ = ["on_files", "on_page_markdown"]

_ROOT = Path(__file__).resolve().parents[2]

_README = '--8<-- "README.md"'
"""A page that is this line is the README."""


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
    if markdown.strip() == _README:
        markdown = (_ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    try:
        return filled(markdown)
    except NotDocumented as failure:
        raise PluginError(f"{page.file.src_uri}: {failure}") from failure
