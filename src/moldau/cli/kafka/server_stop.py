"""`kafka-server-stop`: asks the brokers that `kafka-server-start` started to stop in good order."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running_servers import running


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    del arguments
    found = running()
    if not found:
        console.say("No kafka server to stop")
        return 1
    for process_id in found:
        os.kill(process_id, signal.SIGTERM)
    return 0
