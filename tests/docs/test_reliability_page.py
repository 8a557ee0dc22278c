"""The page on reliability has every mutant, and names only what is there."""

import re
from pathlib import Path

from kits.mutants.search import MUTANTS

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "reliability.md").read_text()


def rows_below(title):
    """The first cells of the table below a line."""
    lines = PAGE.partition(title)[2].partition("\n\n")[0].splitlines()
    return [line.split("|")[1].strip() for line in lines if line.startswith("| ")]


def test_the_table_has_every_mutant_of_the_simulation():
    assert rows_below("| the mistake | median of seeds | found by |") == list(MUTANTS)


def test_every_target_that_the_page_names_is_there():
    makefile = (CHECKOUT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)(?: [A-Z]|`)", PAGE))
    assert {"mutants", "sim-cluster"} <= named <= targets
