"""`kafka-run-class`: runs a command by the name of the Java class that it was.

Scripts that go around Kafka's own (`kafka-run-class.sh kafka.tools.GetOffsetShell ...`) work so.
What is meant for a virtual machine is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running import CommandFailed
from moldau.cli.kafka.table import run_tool, tool_of_class

WITH_ARGUMENT: Final = ("-name",)
ALONE: Final = ("-loggc", "-daemon")


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    words = list(arguments)
    while words and (
        words[0] in ALONE or words[0] in WITH_ARGUMENT or words[0][:2] in ("-X", "-D")
    ):
        del words[: 2 if words[0] in WITH_ARGUMENT else 1]
    if not words:
        raise CommandFailed(
            "USAGE: kafka-run-class.sh [-daemon] [-name servicename] [-loggc] classname [opts]"
        )
    name = tool_of_class(words[0])
    if name is None:
        raise CommandFailed(f"Error: Could not find or load main class {words[0]}")
    return run_tool(name, words[1:], console)
