"""Moldau as one broker, started the way a user starts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from .broker import CLUSTER_ID, BrokerError, BrokerProcess

MOLDAU = Path(sys.executable).with_name("moldau")
COMPILED = Path(sys.prefix) / "compiled"
"""Where `make wheel` unpacks what it has built for this Python."""


class MoldauNode(BrokerProcess):
    """A single Moldau broker from the `moldau` command of the interpreter that runs the tests."""

    kind = "moldau"

    def version(self) -> str:
        return f"Moldau {version('moldau')}"

    def prepare(self) -> None:
        """Format the folder of a broker in a cluster: only one that votes may choose the id."""
        super().prepare()
        if "controller.quorum.voters" in self.settings and not self.data.exists():
            file = self.write_properties({**self.settings, "log.dirs": str(self.data)})
            subprocess.run(
                [str(MOLDAU), "kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(file)],
                check=True,
                capture_output=True,
            )

    def command(self) -> list[str]:
        overrides = [
            part
            for name, value in self.settings.items()
            for part in ("--override", f"{name}={value}")
        ]
        return [str(MOLDAU), "serve", "--data", str(self.data), "--listen", self.address,
                *overrides]  # fmt: skip


class CompiledMoldauNode(MoldauNode):
    """The same from the wheel, with its busiest modules compiled."""

    kind = "moldau-compiled"

    def version(self) -> str:
        return f"{super().version()} (compiled)"

    def environment(self) -> Mapping[str, str]:
        if not (COMPILED / ".built").exists():
            raise BrokerError(f"{COMPILED} is not there, or not whole: `make wheel` builds it")
        return {"PYTHONPATH": str(COMPILED)}
