"""`kafka-server-stop`: asks the brokers that `kafka-server-start` started to stop in good order."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running_servers import stop_running


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    del arguments
    if not stop_running():
        console.say("No kafka server to stop")
        return 1
    return 0
