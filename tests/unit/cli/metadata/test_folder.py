"""Finding a place in a tree, and how names are written in paths."""

from __future__ import annotations

import pytest

from moldau.base.errors import UserError
from moldau.cli.metadata.folder import LazyFolder, below, entry_name, find_node

ROOT = {
    "topics": {"orders": {"id": "abc", "partitions": {"0": {"leader": 1}}}},
    "empty": {},
    "isr": [1, 2],
}


@pytest.mark.parametrize("path", ["/", "", "//"])
def test_the_root_has_many_names(path):
    assert find_node(ROOT, path) == ("/", ROOT)


@pytest.mark.parametrize(
    "path", ["/topics/orders/id", "topics/orders/id", "/topics//orders/id/", "topics/orders/id/"]
)
def test_slashes_around_a_path_do_not_matter(path):
    assert find_node(ROOT, path) == ("/topics/orders/id", "abc")


def test_a_place_has_the_last_name_of_its_path():
    assert find_node(ROOT, "/topics/orders").name == "orders"
    assert find_node(ROOT, "/").name == "/"


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/topcs", "there is no /topcs: did you mean /topics?"),
        ("/topics/order", "there is no /topics/order: did you mean /topics/orders?"),
        ("/zzz", "there is no /zzz: `moldau metadata ls /` shows what there is"),
        ("/empty/x", "there is no /empty/x: `moldau metadata ls /empty` shows what there is"),
        ("/topics/orders/id/x", "/topics/orders/id is a value, not a folder"),
        ("/isr/0", "/isr is a value, not a folder"),
    ],
)
def test_a_path_to_nothing_says_what_there_is(path, advice):
    with pytest.raises(UserError, match="^" + advice.replace("?", r"\?") + "$"):
        find_node(ROOT, path)


def test_an_endless_path_is_not_repeated_whole():
    with pytest.raises(UserError) as refused:
        find_node(ROOT, "x" * 100_000)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("orders.v1", "orders.v1"),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        ("\x1b[2J", "%1B[2J"),
        ("\u202eabc", "%E2%80%AEabc"),
        ("", "<default>"),
        ("<default>", "%3Cdefault>"),
        ("žluťoučký kůň", "žluťoučký kůň"),
    ],
)
def test_names_that_a_path_or_a_terminal_would_misread_are_escaped(name, written):
    assert entry_name(name) == written


def test_below_the_root_there_is_one_slash():
    assert below("/", "topics") == "/topics"
    assert below("/topics", "orders") == "/topics/orders"


def test_a_lazy_folder_makes_only_the_entries_that_are_looked_at():
    made = []

    def make(thing):
        made.append(thing)
        return {"is": thing}

    folder = LazyFolder({str(number): number for number in range(1000)}, make)
    assert (len(folder), list(folder)[:2], "7" in folder, "x" in folder) == (
        1000,
        ["0", "1"],
        True,
        False,
    )
    assert made == []
    assert find_node({"all": folder}, "/all/7/is").node == 7
    assert made == [7]
