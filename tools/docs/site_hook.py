"""The hook of mkdocs: files of the repository outside `docs/` that pages link to join the site.

Pages link to `../bench/RESULTS.md` and the like, because that works on a code host. The site has no
address of such a host to send its readers to, so it takes these files in, below `repository/`:
Markdown becomes a page, everything else a file to be downloaded. Links are turned accordingly, in
both directions. A link to what does not exist is a warning, and so an error of `make docs`.

The hook also refuses a page whose viewing would fetch something from another host.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

logger = logging.getLogger("mkdocs.hooks.site")

DOCS: Final = "docs/"
COPIED: Final = "repository/"

_LINK: Final = re.compile(r"(?<=\]\()(?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?=\))")
_FENCE: Final = re.compile(r"^( *)(```+|~~~+).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
_FETCHED: Final = re.compile(
    r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|<pre class="mermaid">"""
)
"""What a browser loads by itself. For diagrams of mermaid the theme loads a program."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a folder into the nav where it names the folder: `adr/`."""
    config.nav = _with_folders(Path(config.docs_dir), config.nav)
    return config


def _with_folders(docs: Path, entry: Any) -> Any:
    """Return a part of the nav with the pages of each folder in its place, its README first."""
    if isinstance(entry, dict):
        filled = {title: _with_folders(docs, below) for title, below in entry.items()}
        return {title: below for title, below in filled.items() if below}
    if isinstance(entry, list):
        return [page for one in entry for page in _pages_of(docs, one) if page]
    return entry


def _pages_of(docs: Path, entry: Any) -> list[Any]:
    if not isinstance(entry, str) or not entry.endswith("/"):
        return [_with_folders(docs, entry)]
    names = sorted(path.name for path in (docs / entry).glob("*.md"))
    names.sort(key=lambda name: name != "README.md")
    return [entry + name for name in names]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to, and what these files link to in turn."""
    root = Path(config.config_file_path).parent
    waiting = [file for file in files if file.is_documentation_page()]
    while waiting:
        page = waiting.pop()
        for target in _targets(page):
            wanted = _as_file(root, target)
            if wanted is None:
                logger.warning("%s links to %s, which does not exist", page.src_uri, target)
            elif not wanted.startswith(DOCS) and files.get_file_from_path(COPIED + wanted) is None:
                copied = _copied(root, wanted, config)
                files.append(copied)
                if copied.is_documentation_page():
                    waiting.append(copied)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between the files of the repository into links between pages of the site."""
    del files
    root = Path(config.config_file_path).parent
    return _outside_fences(markdown, partial(_LINK.sub, partial(_turned, root, page.file.src_uri)))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that would fetch something from elsewhere when it is viewed."""
    del config
    for found in _FETCHED.findall(output):
        logger.warning("%s would fetch from another host: %s", page.file.src_uri, found)
    return output


def _targets(page: File) -> Iterator[str]:
    """Name the files of the repository that a page links to, except pages beside it."""
    found: list[str] = []

    def note(text: str) -> str:
        found.extend(one["path"] for one in _LINK.finditer(text))
        return text

    _outside_fences(page.content_string, note)
    home = _repository_path(page.src_uri)
    for path in found:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), path))
        # Links within docs/ are checked by mkdocs itself.
        if not target.startswith(DOCS) or not home.startswith(DOCS):
            yield target


def _turned(root: Path, src_uri: str, link: re.Match[str]) -> str:
    """Return the path of one link, as it leads from page to page of the site."""
    home = _repository_path(src_uri)
    target = posixpath.normpath(posixpath.join(posixpath.dirname(home), link["path"]))
    if home.startswith(DOCS) and target.startswith(DOCS):
        return link[0]
    wanted = _as_file(root, target) or target
    on_site = wanted.removeprefix(DOCS) if wanted.startswith(DOCS) else COPIED + wanted
    return posixpath.relpath(on_site, posixpath.dirname(src_uri)) + (link["anchor"] or "")


def _repository_path(src_uri: str) -> str:
    return src_uri.removeprefix(COPIED) if src_uri.startswith(COPIED) else DOCS + src_uri


def _as_file(root: Path, target: str) -> str | None:
    """Return the file that a link means; a folder means its README."""
    path = root / target
    if path.is_dir():
        target = f"{target}/README.md"
        path /= "README.md"
    return target if path.is_file() and not target.startswith("..") else None


def _copied(root: Path, path: str, config: MkDocsConfig) -> File:
    return File.generated(
        config,
        COPIED + path,
        abs_src_path=str(root / path),
        inclusion=InclusionLevel.NOT_IN_NAV,
    )


def _outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    """Change what is not a block of code."""
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])
