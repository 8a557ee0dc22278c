"""The form of Moldau that is under test, compiled or not: whole, and told by the command."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from kits.compiled_modules import compiled_names
from moldau import __version__
from moldau.cli.frame.version import is_compiled


def test_it_is_the_form_that_was_asked_for():
    assert is_compiled() == (os.environ.get("MOLDAU_TEST_FORM") == "compiled")


def test_all_modules_that_may_be_compiled_are_of_one_form():
    origins = {name: str(find_spec(name).origin) for name in compiled_names()}
    suffix = ".so" if is_compiled() else ".py"
    assert origins
    assert [name for name, origin in origins.items() if not origin.endswith(suffix)] == []


def test_the_command_tells_its_form():
    moldau = Path(sys.executable).with_name("moldau")
    told = subprocess.run([moldau, "--version"], capture_output=True, text=True, check=True).stdout
    assert told == f"moldau {__version__}{' (compiled)' if is_compiled() else ''}\n"
