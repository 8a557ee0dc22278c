"""Moldau as one broker, started the way a user starts it."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from .broker import BrokerProcess


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
