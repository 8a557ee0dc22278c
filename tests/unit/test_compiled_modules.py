"""Rules for modules that are also compiled (ADR 0010), as far as the source tells.

mypyc makes a list of a generator expression: whoever takes its items later, one at a time, finds
what was true when it was made. Generator functions stay what they are.
"""

from __future__ import annotations

import ast

import pytest

from kits.compiled_modules import CHECKOUT, compiled_paths

TAKES_ALL_AT_ONCE = {
    "Counter", "all", "any", "bytes", "deque", "dict", "frozenset", "join", "list", "max", "min",
    "next", "set", "sorted", "sum", "tuple", "update",
}  # fmt: skip


def kept(source: str) -> list[int]:
    """List the lines of generator expressions that somebody may keep."""
    tree = ast.parse(source)
    taken = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            if name in TAKES_ALL_AT_ONCE:
                taken.update(node.args)
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.GeneratorExp) and node not in taken
    ]


@pytest.mark.parametrize("path", compiled_paths(), ids=str)
def test_nobody_keeps_a_generator_expression(path):
    assert kept((CHECKOUT / "src" / path).read_text()) == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("slices = Slices(f(key) for key in keys)", [1]),
        ("all(key for key in keys)\nlater = (key for key in keys)", [2]),
        ("b''.join(f(key) for key in keys)", []),
        ("tuple(f(key for key in keys))", [1]),
    ],
)
def test_the_rule_can_be_broken(source, lines):
    assert kept(source) == lines
