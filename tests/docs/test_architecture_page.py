"""The pages on the architecture: every name exists, and no layer is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "moldau"
OVERVIEW = (ROOT / "docs" / "architecture.md").read_text()
DETAILS = sorted((ROOT / "docs" / "architecture").glob("*.md"))
PAGES = "".join([OVERVIEW, *(page.read_text() for page in DETAILS)])
PLACES = [f"/{path.relative_to(ROOT)}" for path in (*SOURCE.rglob("*"), *ROOT.glob("tests/**/*"))]


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`([\w/]+(?:\.py|/))`", PAGES))))
def test_what_the_page_names_is_there(named):
    assert any(place.endswith(f"/{named.rstrip('/')}") for place in PLACES)


def test_every_folder_of_the_source_is_a_layer_of_the_overview():
    layers = OVERVIEW.split("## Layers")[1].split("## Ports")[0]
    named = set(re.findall(r"(\w+)/", layers.split("```")[1]))
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == named


def test_the_overview_links_to_every_page():
    assert DETAILS
    for page in DETAILS:
        assert f"(architecture/{page.name})" in OVERVIEW
