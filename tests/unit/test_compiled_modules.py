"""What mypyc makes of a module must do what Python makes of it.

A compiled coroutine that waits while it handles an exception does not put the exception away
meanwhile: it becomes the context of whatever other tasks raise. So compiled modules do not do that.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOK = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
    "wheel"
]["hooks"]["mypyc"]
WAITS = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)


@pytest.mark.parametrize("path", HOOK["include"])
def test_nothing_waits_while_an_exception_is_handled(path):
    tree = ast.parse((ROOT / path.removeprefix("/")).read_text())
    tries = [one for one in ast.walk(tree) if isinstance(one, ast.Try)]
    handled = [part for one in tries for part in (*one.handlers, *one.finalbody)]
    waits = {
        inner.lineno for part in handled for inner in ast.walk(part) if isinstance(inner, WAITS)
    }
    assert not waits
