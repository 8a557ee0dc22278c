"""Handlers and coordinators reach a log through its partition only.

`Partition` decides who may append, how far one may read and when a batch counts as committed. A
handler that takes `partition.log` passes these rules over. What manages logs on disk may have the
log: `upkeep` (retention, compaction, scrubbing) and `lifecycle/replicas.py` (opening, deleting).
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import moldau

SOURCE = Path(moldau.__file__).parent
SERVER = [
    "server/handlers",
    "server/fetch",
    "server/transactions",
    "server/lifecycle/internal_partitions.py",
    "server/lifecycle/figures.py",
]
COORDINATION = ["coordination"]
LOG, PARTITION = "moldau.storage.log", "moldau.replication"


def modules(places):
    return sorted(
        path
        for place in places
        for path in ([SOURCE / place] if place.endswith(".py") else (SOURCE / place).rglob("*.py"))
    )


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def reached(tree):
    """List the lines that take the log of something."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in {"log", "_log"}
    ]


def name_of(path):
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", modules(SERVER), ids=name_of)
def test_the_server_takes_no_log_of_a_partition(path):
    tree = ast.parse(path.read_text())
    assert reached(tree) == []
    assert LOG not in imported(tree)


@pytest.mark.parametrize("path", modules(COORDINATION), ids=name_of)
def test_a_coordinator_knows_its_port_only(path):
    """Its `log` is an `InternalLog`; partitions and their logs are not imported at all."""
    names = list(imported(ast.parse(path.read_text())))
    assert not [name for name in names if name == LOG or name.startswith(PARTITION)]


@pytest.mark.parametrize("source", ["partition.log.append(batch)", "log = self._partition.log"])
def test_the_rule_can_be_broken(source):
    assert reached(ast.parse(source)) == [1]
