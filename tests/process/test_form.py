"""The form of Moldau that is under test, compiled or not: whole, and told by the command."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

from moldau import __version__
from moldau.base.form import is_compiled

CHECKOUT = Path(__file__).parents[2]


def compiled_modules() -> list[str]:
    """List what `make wheel` compiles."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    hook = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    paths = [Path(path).relative_to("/src") for path in hook["include"]]
    return [".".join(path.with_suffix("").parts) for path in paths]


def test_all_modules_that_may_be_compiled_are_of_one_form():
    origins = {name: str(find_spec(name).origin) for name in compiled_modules()}
    suffix = ".so" if is_compiled() else ".py"
    assert origins
    assert [name for name, origin in origins.items() if not origin.endswith(suffix)] == []


def test_the_command_tells_its_form():
    moldau = Path(sys.executable).with_name("moldau")
    told = subprocess.run([moldau, "--version"], capture_output=True, text=True, check=True).stdout
    assert told == f"moldau {__version__}{' (compiled)' if is_compiled() else ''}\n"
