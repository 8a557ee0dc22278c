"""The page for the first steps: each step is taken, in its order, and shows what the page shows.

The step on Spark is taken in `tests/spark/test_start_page.py`, where there is a session.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from kafka_harness.moldau_node import MoldauNode
from kits.local_cluster import ended_with_block, free_base_port

PAGE = (Path(__file__).parents[2] / "docs" / "start.md").read_text()
FIRST, KILLED = (
    PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    for heading in ("A first record", "Three brokers, one of them killed")
)
SHOWN_ADDRESS = "127.0.0.1:9092"
BIN = Path(sys.executable).parent
PATIENCE_S = 120


def run(line, folder, address):
    """Run a line in a shell as the page's reader has it; return what it prints."""
    environment = {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "MOLDAU_BOOTSTRAP_SERVERS": address,
        "MOLDAU_CONFIG": os.devnull,
    }
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=os.environ | environment, timeout=PATIENCE_S,
        stdout=subprocess.PIPE, check=True, text=True,
    ).stdout  # fmt: skip


def blocks(section, language):
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def test_a_first_record_by_three_clients(tmp_path, capsys):
    programs, outputs = blocks(FIRST, "python"), blocks(FIRST, "text")
    assert blocks(FIRST, "sh") == ["moldau serve\n"]
    assert len(programs) == len(outputs) == 2
    with MoldauNode(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as broker:
        for program, shown in zip(programs, outputs, strict=True):
            exec(program.replace(SHOWN_ADDRESS, broker.address), {})
            assert capsys.readouterr().out == shown
        (console,) = blocks(FIRST, "console")
        for command in console.removeprefix("$ ").split("\n$ "):
            line, shown = command.split("\n", 1)
            line = line.replace(SHOWN_ADDRESS, broker.address)
            assert run(line, tmp_path, broker.address).rstrip() == shown.rstrip(), line


def test_a_killed_broker_costs_no_record(tmp_path):
    port = free_base_port(3)

    def here(text):
        """Put free ports and fewer records into what the page shows."""
        for number in range(3):
            text = text.replace(f":{9092 + number}", f":{port + number}")
        text = text.replace("range(1, 1001)", "range(1, 201)").replace("-n 1000", "-n 200")
        return text.replace("cluster up", f"cluster up --base-port {port}")

    def run_here(text):
        return run(here(text), tmp_path, f"127.0.0.1:{port}")

    start, meanwhile = blocks(KILLED, "sh")
    (program,) = blocks(KILLED, "python")
    ((line, shown),) = re.findall(r"\$ (.*)\n(.*)\n", *blocks(KILLED, "console"))
    with ended_with_block(tmp_path / "cluster"):
        run_here(start)
        with subprocess.Popen(
            [sys.executable, "-u", "-c", here(program)], stdout=subprocess.PIPE
        ) as writer:
            try:
                assert writer.stdout.read(2) == b"\r1"  # it has begun
                for command in meanwhile.splitlines():
                    run_here(command)
                said = writer.communicate(timeout=PATIENCE_S)[0].decode()
            finally:
                writer.kill()
        assert re.search(r"\r200 orders acknowledged, longest wait \d+ ms\n$", said)
        assert (run_here(line).strip(), shown) == ("200", "1000")
        run_here("moldau cluster down --data ./cluster")
    assert "moldau cluster down --data ./cluster\n" in PAGE
