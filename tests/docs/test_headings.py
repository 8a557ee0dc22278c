"""A link to a heading leads to one that its page has."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])
LINK = re.compile(r"\]\(([\w./-]*)#([^)]+)\)")


def anchors_of(page):
    """Return the anchors of a page's headings, as GitHub makes them, and those it names itself."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w -]", "", one.lower()).strip().replace(" ", "-") for one in headings}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_headings_lead_somewhere(page):
    for target, heading in LINK.findall(page.read_text()):
        assert heading in anchors_of(page.parent / target if target else page), heading
