"""Moldau as one broker, started the way a user starts it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from .broker import BrokerError, BrokerProcess

COMPILED = Path(sys.prefix) / "compiled"
"""Where `make wheel` unpacks what it has built for this Python."""


class MoldauNode(BrokerProcess):
    """A single Moldau broker from the `moldau` command of the interpreter that runs the tests."""

    kind = "moldau"

    def version(self) -> str:
        return f"Moldau {version('moldau')}"

    def command(self) -> list[str]:
        overrides = [
            part
            for name, value in self.settings.items()
            for part in ("--override", f"{name}={value}")
        ]
        moldau = Path(sys.executable).with_name("moldau")
        return [str(moldau), "serve", "--data", str(self.data), "--listen", self.address,
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
