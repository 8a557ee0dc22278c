"""The page on clusters: the commands of a cluster on one machine work in the order shown."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from kafka_harness.zookeeper_node import require_zookeeper
from kits.local_cluster import ended_with_block, free_base_port

PAGE = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text()
SECTION, ON_ZOOKEEPER = (
    PAGE.split("\n## A cluster on one machine")[1].split("\n## ")[0].split("\n### On ZooKeeper\n")
)
MOLDAU = str(Path(sys.executable).with_name("moldau"))


def test_the_commands_of_a_cluster_on_one_machine_work(tmp_path):
    run_commands_of(SECTION, tmp_path)


def test_the_commands_of_a_cluster_on_zookeeper_work(tmp_path):
    require_zookeeper()
    run_commands_of(ON_ZOOKEEPER, tmp_path)
    shown = re.findall(r"^  ([\w.]+)/?  ", ON_ZOOKEEPER, re.MULTILINE)
    found = [path.name for path in (tmp_path / "cluster" / "zookeeper").iterdir()]
    assert sorted(found) == sorted(shown)


def run_commands_of(section, tmp_path):
    lines = re.findall(r"^moldau .*$", section.split("```sh\n")[1].split("```")[0], re.MULTILINE)
    assert len(lines) > 5
    port = str(free_base_port(3))
    with ended_with_block(tmp_path / "cluster"):
        for line in lines:
            words = shlex.split(line.replace("9092", port))[1:]
            done = subprocess.run(
                [MOLDAU, *words], cwd=tmp_path, capture_output=True, timeout=120, check=False
            )
            assert done.returncode == 0, (line, done.stderr)


def test_every_file_that_is_shown_is_there(tmp_path):
    shown = re.findall(r"^    ([\w.]+)/?  ", SECTION.split("```\ncluster/")[1], re.MULTILINE)
    assert len(shown) == 4
    with ended_with_block(tmp_path / "cluster") as folder:
        words = ("cluster", "up", "--brokers", "1", "--base-port", str(free_base_port(1)))
        subprocess.run(
            [MOLDAU, *words, "--data", folder, "--detach"],
            capture_output=True, timeout=120, check=True,
        )  # fmt: skip
        assert sorted(path.name for path in (folder / "broker-1").iterdir()) == sorted(shown)
