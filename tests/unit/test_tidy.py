"""The rules of the house that a machine can check on the source itself."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.read_text())
LINES_MAX = 600
FUNCTION_LINES_MAX = 70
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "misc", "common"}


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_why_it_exists_holds_one_idea_and_has_short_functions(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), f"{path} has no docstring"
    assert text.count("\n") <= LINES_MAX
    assert path.stem not in FORBIDDEN_NAMES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, (
                f"{path}:{node.lineno} {node.name} has {lines} lines"
            )
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{path}:{node.lineno} {node.name} has no docstring"


def test_nothing_is_left_for_later():
    for path in MODULES:
        for word in ("TODO", "FIXME", "XXX", "NotImplementedError"):
            assert word not in path.read_text(), f"{path} holds a {word}"
