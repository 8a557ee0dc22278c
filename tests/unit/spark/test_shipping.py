"""What an executor says when it lacks what a reader or writer needs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pyspark import cloudpickle

from moldau import __version__
from moldau.base.errors import UserError
from moldau.spark import shipping
from moldau.spark.provider import MoldauDataSource

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"

ARRIVE = """
import pickle, sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))
try:
    print(pickle.load(sys.stdin.buffer).options)
except Exception as refused:
    print(f"{type(refused).__name__}: {refused}")
"""


def arriving(*missing: str) -> list[str]:
    """Send a source to a Python that cannot import some modules; return what it says."""
    sent = cloudpickle.dumps(MoldauDataSource({"subscribe": "t"}))
    done = subprocess.run(
        [sys.executable, "-c", ARRIVE, *missing], input=sent, capture_output=True, check=True
    )
    return done.stdout.decode().splitlines()


@pytest.fixture(autouse=True)
def forgotten():
    """Forget what has been found installed, before and after."""
    shipping.check_packages.cache_clear()
    yield
    shipping.check_packages.cache_clear()


@pytest.mark.process
def test_what_is_sent_arrives_as_it_was():
    assert arriving() == ["{'subscribe': 't'}"]


@pytest.mark.process
def test_an_executor_without_moldau_says_so_in_one_line():
    (line,) = arriving("moldau")

    assert line.startswith(f"ImportError: {sys.executable} on ")
    assert f"install moldau[spark] {__version__} on every node" in line


@pytest.mark.process
@pytest.mark.parametrize("package", ["numpy", "pyarrow"])
def test_an_executor_without_a_library_names_it_in_one_line(package):
    (line,) = arriving(package)

    assert line.startswith(f'UserError: format("moldau") needs {package} ')
    assert sys.executable in line
    assert "install moldau[spark] there" in line


def test_a_library_that_is_too_old_is_named_with_its_version(monkeypatch):
    monkeypatch.setattr("numpy.__version__", "1.26.4")

    with pytest.raises(UserError, match=r"needs numpy 2\.0 or newer, but .* has 1\.26\.4: "):
        shipping.check_packages()


def test_another_moldau_than_the_drivers_is_refused_before_it_loads_anything():
    with pytest.raises(UserError, match=rf"moldau is {__version__} for .* but 9\.9 on Spark's"):
        shipping.unpacked("9.9", b"not a pickle")


def test_the_versions_asked_for_are_those_of_the_extra():
    extra = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["spark"]

    for name, lowest in shipping.LOWEST_VERSIONS.items():
        (wanted,) = [line for line in extra if line.startswith(f"{name}>=")]
        given = [*map(int, wanted.removeprefix(f"{name}>=").split(".")), 0]
        assert tuple(given[:2]) == lowest
