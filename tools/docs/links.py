"""Checks the links between the repository's pages, their anchors too: `make links`.

It reads Markdown only and takes about a second, so that it can be run after every edit. `make docs`
checks the same on the finished site. Anchors are those of the site: a heading's words, joined.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from markdown.extensions.toc import slugify, unique

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ("*.md", "docs/**/*.md", "bench/*.md")

_FENCE: Final = re.compile(r"^( *)(```+|~~~+).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\((?P<path>[^)\s#]*)(?:#(?P<anchor>[^)\s]*))?\)")
_HEADING: Final = re.compile(r"^#{1,6} +(.*?)(?: +#+)?$", re.MULTILINE)
_MARKUP: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)|[`*]")
_ID: Final = re.compile(r'<a id="([^"]+)">')


def broken_links(root: Path = ROOT) -> Iterator[str]:
    """Name every link that leads nowhere: the page, and where it leads."""
    for page in sorted(path for pattern in PAGES for path in root.glob(pattern)):
        for link in _LINK.finditer(_text_of(page)):
            path, anchor = link["path"], link["anchor"]
            if "://" in path or path.startswith("mailto:"):
                continue
            target = page.parent / path if path else page
            named = page.relative_to(root)
            if not target.exists():
                yield f"{named}: {path} does not exist"
            elif anchor and target.suffix == ".md" and anchor not in _anchors(target.resolve()):
                yield f"{named}: {path} has no #{anchor}"


@cache
def _anchors(page: Path) -> frozenset[str]:
    text = _text_of(page)
    used: set[str] = set()
    for heading in _HEADING.findall(text):
        words = _MARKUP.sub(lambda found: found[1] or "", heading)
        unique(slugify(words, "-"), used)
    return frozenset(used.union(_ID.findall(text)))


@cache
def _text_of(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def main() -> None:
    """Print what is broken; the status says whether anything is."""
    broken = list(broken_links())
    sys.exit("\n".join(broken) or 0)


if __name__ == "__main__":
    main()
