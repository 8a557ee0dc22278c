"""`zookeeper-shell`: looks at the nodes of a ZooKeeper and changes them, by hand or in a script.

One command comes from the command line, or many from a terminal or a pipe. The lines around the
answers are those of Kafka's script, because people cut them off with `tail` and `grep`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running import CommandFailed, version_line
from moldau.cli.kafka.zookeeper_commands import run_command
from moldau.cli.kafka.zookeeper_words import split_line
from moldau.cli.zookeeper.connection import SESSION_TIMEOUT_S, ZooKeeperConnection, connect_to

USAGE: Final = "USAGE: zookeeper-shell.sh zookeeper_host:port[/path] [-timeout ms] [args...]"
LAST_WORDS: Final = ("quit", "exit")


@dataclass(frozen=True, slots=True)
class Call:
    """What the command line says."""

    connect: str
    session_timeout_s: float
    command: Sequence[str]


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    if list(arguments[:1]) in (["--version"], ["-version"]):
        console.say(version_line())
        return 0
    call = _parse(arguments)
    console.say(f"Connecting to {call.connect}")
    console.stdout.flush()
    with connect_to(call.connect, session_timeout_s=call.session_timeout_s) as connection:
        if call.command:
            _say_connected(console)
            return _run(connection, call.command, console)
        console.say("Welcome to ZooKeeper!")
        console.say("JLine support is disabled")
        _say_connected(console)
        return _run_lines(connection, call.connect, console)


def _parse(arguments: Sequence[str]) -> Call:
    """Read the command line; the address also as `-server`, as ZooKeeper's class takes it."""
    connect, timeout_s, words = "", SESSION_TIMEOUT_S, list(arguments)
    while words and (not connect or words[0].startswith("-")):
        word = words.pop(0)
        if word in ("-server", "-timeout") and words:
            value = words.pop(0)
            if word == "-server":
                connect = value
            elif value.isdigit():
                timeout_s = int(value) / 1000
            else:
                raise CommandFailed(f"-timeout {value}: expected milliseconds")
        elif word == "-zk-tls-config-file":
            raise CommandFailed("-zk-tls-config-file: this shell does not connect with TLS")
        elif word.startswith("-") or connect:
            raise CommandFailed(USAGE)
        else:
            connect = word
    if not connect:
        raise CommandFailed(USAGE)
    return Call(connect, timeout_s, words)


def _say_connected(console: Console) -> None:
    console.say("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null")
    console.stdout.flush()


def _run_lines(connection: ZooKeeperConnection, connect: str, console: Console) -> int:
    """Run line after line; return the status of the last command."""
    status = 0
    for line in _lines(connection, connect, console):
        words = split_line(line)
        if words[:1] and words[0] in LAST_WORDS:
            break
        if words:
            status = _run(connection, words, console)
    return status


def _run(connection: ZooKeeperConnection, words: Sequence[str], console: Console) -> int:
    status = run_command(connection, words, console)
    console.stdout.flush()
    return status


def _lines(connection: ZooKeeperConnection, connect: str, console: Console) -> Iterator[str]:
    """Yield lines as they come; a terminal shows a prompt, and lets lines be edited."""
    if not console.stdin.isatty():
        for read in console.stdin:
            yield read.decode(errors="surrogateescape").rstrip("\r\n")
        return
    import readline  # noqa: F401, PLC0415 - that it is imported lets `input` edit lines

    count = 0
    while True:
        state = "CONNECTED" if connection.is_connected else "CONNECTING"
        try:
            line = input(f"[zk: {connect}({state}) {count}] ")
        except EOFError:
            console.say()
            return
        count += bool(line)
        yield line
