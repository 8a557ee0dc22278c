"""Runs the `sh` blocks of a page of docs as a reader would type them, one line after the other.

`moldau` runs within the test's own process, which is quicker than a new interpreter for each line.
Commands that start brokers are processes of their own, since brokers must not be children of the
test, and so are Kafka's commands, which need a real standard input. Everything else is left to
bash, except pauses, and what a machine may not have (curl).
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from kafka_harness.waiting import eventually
from kits.cli_kit import Ran, moldau

BIN = Path(sys.executable).parent
PATIENCE_S = 120


def sh_blocks(page: str) -> list[str]:
    """Return the blocks that are to be run."""
    return re.findall(r"```sh\n(.*?)```", page, re.DOTALL)


class Reader:
    """Somebody who types the lines of pages, in one folder and one shell."""

    def __init__(self, folder: Path, ports: Mapping[str, int]) -> None:
        self.folder = folder
        self._ports = ports
        """Free ports in the place of those that a page names."""
        self._variables: dict[str, str] = {}
        self.printed: dict[str, str] = {}
        """What each line has printed, by the line as the page has it."""

    def follow(self, page: str) -> None:
        """Run every block of a page; AssertionError names the line that failed."""
        for block in sh_blocks(page):
            for line in block.splitlines():
                self.printed[line] = self._run(self._with_ports(line), line)

    def _with_ports(self, line: str) -> str:
        for port, free in self._ports.items():
            line = re.sub(rf"\b{port}\b", str(free), line)
        return line

    def _run(self, line: str, shown: str) -> str:
        if set_here := re.fullmatch(r"(?:export )?([A-Z_]+)=(.*)", line):
            name, text = set_here.groups()
            self._variables[name] = self._bash(f'printf %s "{text}"', shown)
            return ""
        if waiting := re.fullmatch(r"until (moldau .*); do sleep 1; done", line):
            eventually(lambda: self._moldau(waiting[1]).status == 0, shown)
            return ""
        if asked := re.fullmatch(r"curl -s (http://\S+)", line):
            with urllib.request.urlopen(asked[1], timeout=PATIENCE_S) as answer:
                return str(answer.read().decode())
        if re.match(r"moldau (?!kafka-|cluster (?:up|start) )", line):
            ran = self._moldau(line)
            assert ran.status == 0, f"{shown}: {ran.err}"
            return ran.out
        return self._bash(line, shown)

    def _moldau(self, line: str) -> Ran:
        line, _, file = line.partition(" > ")
        words = shlex.split(self._expanded(line))[1:]
        with contextlib.chdir(self.folder):
            ran = moldau(*words, environ=self._variables)
        if file:
            (self.folder / file).write_text(ran.out)
        return ran

    def _expanded(self, line: str) -> str:
        return re.sub(r"\$([A-Z_]+)", lambda name: self._variables[name[1]], line)

    def _bash(self, line: str, shown: str) -> str:
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=self.folder,
            env={**os.environ, **self._variables, "PATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{shown}: {done.stderr}"
        return done.stdout
