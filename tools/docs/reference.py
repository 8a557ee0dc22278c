"""Writes the pages of `docs/reference/` that are made from the code: `make reference`.

They are committed. A code host and a checkout without the site's tools then show them, and a
change of a default or of an option is seen in the diff of the change that made it.
`tests/docs/test_reference_pages.py` says when they are not current. The pages of the Python API
are not among them: they repeat docstrings, which stand beside the code already, so mkdocstrings
puts them together when the site is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.docs.command_pages import command_pages
from tools.docs.config_pages import config_pages
from tools.docs.markdown import GENERATED
from tools.docs.metric_pages import metrics_page
from tools.docs.protocol_page import protocol_page

REFERENCE: Final = Path(__file__).parents[2] / "docs" / "reference"


def reference_pages() -> dict[str, str]:
    """Return every generated page by its path below `docs/reference/`."""
    return {
        "protocol.md": protocol_page(),
        "metrics.md": metrics_page(),
        **config_pages(),
        **command_pages(),
    }


def written_pages() -> dict[str, str]:
    """Return the generated pages that are there, by their paths."""
    found = {path: path.read_text(encoding="utf-8") for path in REFERENCE.rglob("*.md")}
    return {
        path.relative_to(REFERENCE).as_posix(): text
        for path, text in found.items()
        if text.startswith(GENERATED)
    }


def main() -> None:
    """Write the pages, and remove those whose subject is gone."""
    wanted = reference_pages()
    for name in written_pages().keys() - wanted.keys():
        (REFERENCE / name).unlink()
    for name, text in wanted.items():
        path = REFERENCE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
