"""Real consumers in their own processes, as a test holds them: told what to do, watched, killed.

A `Host` is a process full of consumers of one client; a `Member` is one of them and remembers all
it has told. Time stamps of all processes are of one clock, so "one owner at any moment" can be
checked to the letter, after the fact.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from compat.group_clients import Wishes
from kafka_harness.distribution import CURRENT, OLDEST
from kafka_harness.java import java_command
from kafka_harness.waiting import eventually

CHECKOUT = Path(__file__).parents[2]
JAVA_SOURCE = CHECKOUT / "tests" / "java" / "GroupHost.java"
NEWEST_JAVA = f"java-{CURRENT}"
OLDEST_JAVA = f"java-{OLDEST}"
OURS = ("moldau", "moldau-asyncio")
PYTHONS = ("confluent-kafka", "kafka-python", "aiokafka", *OURS)
WAIT_S = 60
"""A rebalance takes a fraction of a second here; a loaded machine may need longer."""

_ENDS = ("leaving", "closed")
"""From the first on a member uses nothing any more; not every library says so before it leaves, and
others may own what it had before it is closed."""
_VERSIONS = {NEWEST_JAVA: CURRENT, OLDEST_JAVA: OLDEST}


def crew_of(*names: str) -> pytest.MarkDecorator:
    """Give a test these clients, or all; those in Java make it need Java."""
    crew = names or (*PYTHONS, *_VERSIONS)
    java = [_VERSIONS[name] for name in crew if name in _VERSIONS]
    marks = [pytest.mark.java(*java)] if java else []
    return pytest.mark.parametrize(
        "crew", [pytest.param(crew, id="+".join(names) or "all", marks=marks)]
    )


def play(crew: Iterable[str], story: Callable[[str], None]) -> None:
    """Run a story with every client of a crew at once: it is mostly waiting."""
    crew = list(crew)
    with ThreadPoolExecutor(len(crew)) as pool:
        running = {client: pool.submit(story, client) for client in crew}
    for client, ended in running.items():
        if error := ended.exception():
            error.add_note(f"with {client}")
    errors = [error for ended in running.values() if (error := ended.exception())]
    if len(errors) > 1:
        raise BaseExceptionGroup("several clients failed", errors)
    if errors:
        raise errors[0]


class Event(NamedTuple):
    """One thing that happened to a member."""

    at_ns: int
    name: str
    text: str

    @property
    def partitions(self) -> frozenset[str]:
        return frozenset(self.text.split())


class Member:
    """A consumer in another process: its words come in here, by a thread, in their order."""

    def __init__(self, host: Host, name: str) -> None:
        self.host = host
        self.name = name
        self.events: list[Event] = []
        self.owned: set[str] = set()
        self.read: dict[str, set[int]] = defaultdict(set)
        self.gone = False

    def hear(self, event: Event) -> None:
        if event.name == "assigned":
            self.owned |= event.partitions
        elif event.name in {"revoked", "lost"}:
            self.owned -= event.partitions
        elif event.name in _ENDS:
            self.owned.clear()
            self.gone = event.name == "closed"
        elif event.name == "read":
            partition, first, last = event.text.split()
            self.read[partition].update(range(int(first), int(last) + 1))
        self.events.append(event)

    def tell(self, verb: str, *arguments: object) -> None:
        """Give a command without waiting for anything."""
        self.host.write(self.name, verb, *arguments)

    def ask(self, verb: str, *arguments: object) -> str:
        """Give a command and return its answer."""
        known = self.count("answer")
        self.tell(verb, *arguments)
        return self.next("answer", known)

    def commit(self, verb: str = "commit") -> str:
        """Commit by command; return how it ended."""
        known = self.count("committed", "refused")
        self.tell(verb)
        self.next("committed", known, "refused")
        return self.told("committed", "refused")[known].name

    def count(self, *names: str) -> int:
        return len(self.told(*names))

    def told(self, *names: str) -> list[Event]:
        """Return all events of these names so far."""
        return [event for event in list(self.events) if event.name in names]

    def next(self, name: str, known: int, *others: str) -> str:
        """Wait for one event more than are known; return its text."""
        self.wait(lambda: self.count(name, *others) > known, f"{name} number {known + 1}")
        return self.told(name, *others)[known].text

    def wait_for_error(self, name: str) -> None:
        self.wait(lambda: name in {event.text for event in self.told("error")}, f"error {name}")

    def wait(self, look: object, what: str) -> None:
        try:
            eventually(look, f"{self.name}: {what}", WAIT_S)  # type: ignore[arg-type]
        except AssertionError as late:
            raise AssertionError(f"{late}; it told {self.tail()}") from None

    def tail(self) -> str:
        """Return its last words, and its process's."""
        return f"{[tuple(event[1:]) for event in self.events[-12:]]}\n{self.host.errors()}"

    def leave(self) -> None:
        """Close the consumer and wait until it is closed."""
        self.tell("leave")
        self.wait(lambda: self.gone, "closed")


class Host:
    """A process of consumers; also a context manager that leaves no process behind."""

    def __init__(self, client: str, server: str, directory: Path) -> None:
        self.client = client
        self.members: dict[str, Member] = {}
        self._errors = directory / f"{client}-{time.monotonic_ns()}.txt"
        with self._errors.open("wb") as sink:
            self._process = subprocess.Popen(
                _command(client, server),
                cwd=CHECKOUT / "tests",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT / "tests")},
                start_new_session=True,
            )
        self._ready = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def join(self, name: str, wishes: Wishes) -> Member:
        """Start a consumer; it goes by this name as its client id."""
        if not self._ready.wait(WAIT_S):
            raise AssertionError(f"{self.client} did not start: {self.errors()}")
        member = self.members[name] = Member(self, name)
        self.write(name, "join", *wishes.parts())
        return member

    def write(self, *parts: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(map(str, parts)) + "\n")
        self._process.stdin.flush()

    def errors(self) -> str:
        return self._errors.read_text(errors="replace")[-2000:]

    def kill(self) -> None:
        """End it without a word (-9): what its members owned is theirs no more from now on."""
        now_ns = time.monotonic_ns()
        self._process.kill()
        self._end()
        for member in self.members.values():
            member.hear(Event(now_ns, "closed", ""))

    def close(self) -> None:
        """Let all consumers leave and the process end."""
        assert self._process.stdin is not None
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGKILL)
        self._end()

    def _end(self) -> None:
        self._process.wait(WAIT_S)
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at_ns, name, event, text = line.rstrip("\n").split("\t")
            if event == "ready":
                self._ready.set()
            else:
                self.members[name].hear(Event(int(at_ns), event, text))


def _command(client: str, server: str) -> list[str]:
    if client in PYTHONS:
        return [sys.executable, "-m", "compat.group_host", client, server]
    return java_command(client.removeprefix("java-"), JAVA_SOURCE, server)


class Scene:
    """A broker's address and the processes that talk to it: one of each client, kept, or spare."""

    def __init__(self, server: str, directory: Path) -> None:
        self.server = server
        self._directory = directory
        self._hosts: dict[str, Host] = {}
        self._spare: list[Host] = []

    def host(self, client: str) -> Host:
        """Return the process of a client that all tests share."""
        if client not in self._hosts:
            self._hosts[client] = Host(client, self.server, self._directory)
        return self._hosts[client]

    def spare(self, client: str) -> Host:
        """Return a process of its own, to be killed."""
        self._spare.append(Host(client, self.server, self._directory))
        return self._spare[-1]

    def dismiss(self) -> None:
        """Let every consumer of the shared processes leave."""
        members = [member for host in self._hosts.values() for member in host.members.values()]
        for member in members:
            if not member.gone:
                member.tell("leave")
        for member in members:
            member.wait(lambda: member.gone, "closed")  # noqa: B023 - waited for at once
        for host in self._hosts.values():
            host.members.clear()

    def close(self) -> None:
        hosts = [*self._hosts.values(), *self._spare]
        closing = [threading.Thread(target=host.close) for host in hosts]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()


@contextmanager
def scene_at(server: str, directory: Path) -> Iterator[Scene]:
    """A scene that leaves no process behind."""
    scene = Scene(server, directory)
    try:
        yield scene
    finally:
        scene.close()


def places(topic: str, count: int) -> set[str]:
    """Return the partitions of a topic by name."""
    return {f"{topic}-{partition}" for partition in range(count)}


def wait_shared(members: Iterable[Member], partitions: set[str]) -> None:
    """Wait until every partition has one owner, and nobody has two more than another."""
    members = [member for member in members if not member.gone]

    def settled() -> bool:
        owned = [set(member.owned) for member in members]
        sizes = [len(each) for each in owned]
        even = max(sizes) - min(sizes) <= 1
        return even and sum(sizes) == len(partitions) and set().union(*owned) == partitions

    try:
        eventually(settled, f"{len(members)} members share {len(partitions)} partitions", WAIT_S)
    except AssertionError as late:
        said = "\n".join(
            f"{each.name} owns {sorted(each.owned)}: {each.tail()}" for each in members
        )
        raise AssertionError(f"{late}\n{said}") from None


def wait_read(members: Iterable[Member], ends: Mapping[str, int]) -> None:
    """Wait until the members together have read each partition from 0 to its end."""
    members = list(members)

    def missing() -> dict[str, int]:
        read = {place: set().union(*(m.read[place].copy() for m in members)) for place in ends}
        return {
            place: end - len(read[place]) for place, end in ends.items() if len(read[place]) < end
        }

    try:
        eventually(lambda: not missing(), "everything is read", WAIT_S)
    except AssertionError as late:
        tails = "\n".join(f"{member.name}: {member.tail()}" for member in members)
        raise AssertionError(f"{late}; missing {missing()}\n{tails}") from None


def assert_one_owner(members: Iterable[Member]) -> None:
    """Check that no partition ever had two owners at one moment."""
    periods: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for member in members:
        since: dict[str, int] = {}
        for event in member.events:
            if event.name == "assigned":
                since.update(dict.fromkeys(event.partitions - since.keys(), event.at_ns))
            elif event.name in {"revoked", "lost", *_ENDS}:
                gone = set(since) if event.name in _ENDS else event.partitions
                for partition in gone & since.keys():
                    periods[partition].append((since.pop(partition), event.at_ns, member.name))
        for partition, start in since.items():
            periods[partition].append((start, sys.maxsize, member.name))
    for partition, each in periods.items():
        each.sort()
        for (_, end, one), (start, _, other) in pairwise(each):
            assert end <= start, f"{partition} was {one}'s and {other}'s at once"
