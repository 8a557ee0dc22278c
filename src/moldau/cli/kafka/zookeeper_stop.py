"""`zookeeper-server-stop`: stops the ZooKeepers that `zookeeper-server-start` started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running_zookeepers import forget, noted
from moldau.cli.zookeeper.server_process import stop_server
from moldau.cli.zookeeper.server_properties import read_server_properties


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status. A properties file names one of several servers."""
    named = [read_server_properties(Path(file), {}).data for file in arguments]
    stopped = [data for data in named or noted() if _stop(data)]
    if not stopped:
        console.say("No zookeeper server to stop")
        return 1
    return 0


def _stop(data: Path) -> bool:
    """Stop the server of a data directory, if one runs there.

    A note without a server stays: the server may be about to start.
    """
    has_stopped = stop_server(data)
    if has_stopped or not data.exists():
        forget(data)
    return has_stopped
