"""The page on how Moldau is built: what it names is there, and no floor is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "moldau"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PLACES = [f"/{path.relative_to(ROOT)}" for path in (*SOURCE.rglob("*"), *ROOT.glob("tests/**/*"))]


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`([\w/]+(?:\.py|/))`", PAGE))))
def test_what_the_page_names_is_there(named):
    assert any(place.endswith(f"/{named.rstrip('/')}") for place in PLACES)


def test_every_folder_of_the_source_is_a_floor_of_the_page():
    floors = PAGE.split("## The floors")[1].split("## Ports")[0]
    named = set(re.findall(r"(\w+)/", floors.split("```")[1]))
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == named
