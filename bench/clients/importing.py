"""What importing a client costs, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

from bench.clients.bars import IMPORT, once
from bench.report import Figures

PROCESSES = 5
"""So many of each, in turns; the quickest counts: an import does the same every time."""
STATEMENTS = {
    "moldau": "from moldau import AsyncProducer, AsyncConsumer",
    "aiokafka": "import aiokafka",
}


def run(address: str, *, backwards: bool) -> Figures:  # noqa: ARG001 - all works are called alike
    """Import each client several times."""
    order = list(reversed(STATEMENTS) if backwards else STATEMENTS)
    times: dict[str, list[float]] = {client: [] for client in order}
    for _ in range(PROCESSES):
        for client in order:
            times[client].append(import_ms(STATEMENTS[client]))
    return {once(client, IMPORT): min(each) for client, each in times.items()}


def import_ms(statement: str) -> float:
    """Return the CPU time of a fresh interpreter that imports something."""
    code = (
        f"import time; began = time.process_time(); {statement}; print(time.process_time() - began)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(told.stdout) * 1000
