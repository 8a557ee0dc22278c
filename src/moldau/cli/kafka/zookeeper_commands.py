"""What the commands of the shell do.

Answers go to standard output; `Created /path` and what cannot be go to standard error, as in
ZooKeeper's own shell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from moldau.base.errors import UserError
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.zookeeper_texts import children_line, status_lines
from moldau.cli.kafka.zookeeper_words import GivenWords, WrongWords, check_path, parse_words
from moldau.cli.zookeeper.connection import (
    ANY_VERSION,
    NodeMissing,
    NodeRefused,
    ZooKeeperConnection,
)

NOT_FOUND: Final = 127
REFUSED: Final = 1
USAGE: Final = "zookeeper-shell host:port[/chroot] cmd args"

Work = Callable[[ZooKeeperConnection, GivenWords, Console], None]


class Command(NamedTuple):
    """One command: how it is written, and what it does."""

    usage: str
    work: Work
    words_min: int = 1
    flags: str = ""
    valued: str = ""


def run_command(connection: ZooKeeperConnection, words: Sequence[str], console: Console) -> int:
    """Carry out one line; return the status that the shell would end with."""
    name = words[0]
    command = COMMANDS.get(name)
    if command is None:
        console.warn("\n".join([USAGE, *usage_lines()]))
        console.warn(f"Command not found: Command not found {name}")
        return NOT_FOUND
    try:
        given = parse_words(words[1:], command.flags, command.valued)
        if len(given.others) < command.words_min:
            raise WrongWords(f"{name} {command.usage}")
        # A sequential node may have no name but its number.
        check_path(given.others[0] + ("1" if name == "create" and "s" in given.options else ""))
        command.work(connection, given, console)
    except UserError as error:
        console.warn(str(error))
        return REFUSED
    return 0


def usage_lines() -> list[str]:
    """Return how each command is written."""
    named = {name: command.usage for name, command in COMMANDS.items()} | {"quit": ""}
    return [f"\t{name} {usage}" for name, usage in sorted(named.items())]


def _ls(connection: ZooKeeperConnection, given: GivenWords, console: Console) -> None:
    path = given.others[0]
    if "R" in given.options:
        connection.status(path)
        console.say_all(_tree(connection, path))
        return
    names, status = connection.children(path)
    console.say(children_line(names))
    if "s" in given.options:
        console.say_all(status_lines(status))


def _tree(connection: ZooKeeperConnection, top: str) -> Iterator[str]:
    """Walk over a node and all below it, each before its children."""
    waiting = [top]
    while waiting:
        path = waiting.pop()
        yield path
        with suppress(NodeMissing):  # it may be deleted meanwhile
            names, _ = connection.children(path)
            waiting += [f"{path.rstrip('/')}/{name}" for name in reversed(names)]


def _get(connection: ZooKeeperConnection, given: GivenWords, console: Console) -> None:
    data, status = connection.read(given.others[0])
    console.stdout.write((b"null" if data is None else data) + b"\n")
    if "s" in given.options:
        console.say_all(status_lines(status))


def _stat(connection: ZooKeeperConnection, given: GivenWords, console: Console) -> None:
    console.say_all(status_lines(connection.status(given.others[0])))


def _create(connection: ZooKeeperConnection, given: GivenWords, console: Console) -> None:
    path, *data = given.others
    if len(data) > 1:
        raise WrongWords("create takes no acl here: everybody may use a new node")
    created = connection.create(
        path,
        _bytes(data[0]) if data else None,
        is_ephemeral="e" in given.options,
        is_sequential="s" in given.options,
    )
    console.warn(f"Created {created}")


def _set(connection: ZooKeeperConnection, given: GivenWords, console: Console) -> None:
    path, data, *_ = given.others
    status = connection.set(path, _bytes(data), _version(given))
    if "s" in given.options:
        console.say_all(status_lines(status))


def _delete(connection: ZooKeeperConnection, given: GivenWords, console: Console) -> None:
    del console
    connection.delete(given.others[0], _version(given))


def _delete_all(connection: ZooKeeperConnection, given: GivenWords, console: Console) -> None:
    path = given.others[0]
    connection.status(path)
    is_complete = True
    # Children come behind their parents, and have to go first.
    for node in reversed(list(_tree(connection, path))):
        try:
            connection.delete(node)
        except NodeMissing:
            pass
        except NodeRefused:
            is_complete = False
    if not is_complete:
        console.warn("Failed to delete some node(s) in the subtree!")


def _bytes(word: str) -> bytes:
    return word.encode(errors="surrogateescape")


def _version(given: GivenWords) -> int:
    text = given.options.get("v", str(ANY_VERSION))
    try:
        return int(text)
    except ValueError:
        raise WrongWords(f"-v {text}: a version is a number") from None


COMMANDS: Final = {
    "create": Command("[-s] [-e] path [data]", _create, flags="se"),
    "delete": Command("[-v version] path", _delete, valued="v"),
    "deleteall": Command("path [-b batch size]", _delete_all, valued="b"),
    "get": Command("[-s] path", _get, flags="s"),
    "ls": Command("[-s] [-R] path", _ls, flags="sR"),
    "rmr": Command("path", _delete_all),
    "set": Command("path data [-s] [-v version]", _set, 2, flags="s", valued="v"),
    "stat": Command("path", _stat),
}
"""All commands; `rmr` is the name that `deleteall` had before ZooKeeper 3.5."""
