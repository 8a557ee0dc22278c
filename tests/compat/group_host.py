"""A process full of consumers that does what its standard input says: `group_host LIBRARY SERVER`.

A command is a line `member<TAB>verb<TAB>argument...`; an event is a line
`monotonic nanoseconds<TAB>member<TAB>name<TAB>text`. The first line says `ready`. Each member has
its thread, polls all the time, and takes a command between two polls. The process ends with its
input, so it does not outlive the test that started it, unless by a kill, which is what the tests
want it for. `tests/java/GroupHost.java` is the same in Java.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from itertools import pairwise

from compat.group_clients import LIBRARIES, GroupConsumer, Read, RefusedError, Wishes, name_of
from compat.own_group_clients import OWN

END_S = 10
"""How long members may take to leave a broker that is perhaps gone; then the process ends."""
RETRY_S = 0.05
"""Between a poll that failed and the next one."""
CLIENTS = {**LIBRARIES, **OWN}


def say(member: str, event: str, text: str = "") -> None:
    """Write a line at once; one `write` of it, so that lines of two threads do not mix."""
    sys.stdout.write(f"{time.monotonic_ns()}\t{member}\t{event}\t{text}\n")
    sys.stdout.flush()


class Member:
    """One consumer and its thread."""

    def __init__(self, library: str, server: str, name: str, wishes: Wishes) -> None:
        self.name = name
        self.commands: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self._library, self._server, self._wishes = library, server, wishes
        self._uncommitted = False
        self._fenced = False
        self.thread = threading.Thread(target=self._live, name=name)
        self.thread.start()

    def _live(self) -> None:
        try:
            consumer = CLIENTS[self._library](self._server, self.name, self._wishes, self._tell)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must hear of it
            self._tell("error", name_of(error))
            return
        topics = [topic for topic in self._wishes.topics.split(",") if topic]
        consumer.subscribe(topics, self._wishes.pattern)
        while self._obey(consumer):
            self._turn(consumer)
        self._tell("leaving", "")
        consumer.close()
        self._tell("closed", "")

    def _turn(self, consumer: GroupConsumer) -> None:
        """Poll once, and commit what was read if that is wished.

        Whoever was fenced has a successor: polling on would fence that in turn, and so on for ever.
        """
        if self._fenced:
            time.sleep(RETRY_S)
            return
        try:
            reads = consumer.poll()
        except Exception as error:  # noqa: BLE001 - a broker may be away; the test decides
            self._tell("error", name_of(error))
            self._fenced = name_of(error) == "FencedInstanceId"
            time.sleep(RETRY_S)
            return
        for read in joined(reads):
            self._tell("read", f"{read.partition} {read.first} {read.last}")
        self._uncommitted |= bool(reads)
        if self._uncommitted and self._wishes.commit == "each":
            self._commit(consumer)

    def _commit(self, consumer: GroupConsumer) -> None:
        try:
            consumer.commit()
        except RefusedError as refused:
            self._tell("refused", str(refused))
        except Exception as error:  # noqa: BLE001
            self._tell("refused", name_of(error))
        else:
            self._uncommitted = False
            self._tell("committed", "")

    def _obey(self, consumer: GroupConsumer) -> bool:
        """Take one command, if there is one; tell whether to go on."""
        try:
            verb, *arguments = self.commands.get_nowait()
        except queue.Empty:
            return True
        if verb == "leave":
            return False
        if verb == "subscribe":
            consumer.subscribe(arguments[0].split(","), "")
        elif verb == "stall":
            self._stall(consumer)
        elif verb == "commit":
            self._commit(consumer)
        elif verb == "commit-later":
            consumer.commit_later()
        elif verb == "seek":
            consumer.seek(arguments[0], int(arguments[1]))
            self._tell("answer", "")
        elif verb == "ping":
            self._tell("answer", "")
        else:
            ask = {"committed": consumer.committed, "position": consumer.position}[verb]
            self._tell("answer", str(ask(arguments[0])))
        return True

    def _stall(self, consumer: GroupConsumer) -> None:
        """Be busy with what was read until told to wake, then commit it, before any poll."""
        self._tell("asleep", "")
        while self.commands.empty():
            consumer.stall(RETRY_S)
        self.commands.get()
        self._commit(consumer)

    def _tell(self, event: str, text: str) -> None:
        say(self.name, event, text)


def joined(reads: list[Read]) -> list[Read]:
    """Make one run of offsets that follow each other."""
    ends = [
        index
        for index, (one, two) in enumerate(pairwise(reads), 1)
        if one.partition != two.partition or one.last + 1 != two.first
    ]
    cuts = [0, *ends, len(reads)] if reads else []
    return [
        Read(reads[start].partition, reads[start].first, reads[end - 1].last)
        for start, end in pairwise(cuts)
    ]


def main() -> None:
    library, server = sys.argv[1:]
    members: dict[str, Member] = {}
    say("", "ready")
    for line in sys.stdin:
        name, verb, *arguments = line.rstrip("\n").split("\t")
        if verb == "join":
            members[name] = Member(library, server, name, Wishes.parsed(arguments))
        else:
            members[name].commands.put([verb, *arguments])
    for member in members.values():
        member.commands.put(["leave"])
    deadline = time.monotonic() + END_S
    for member in members.values():
        member.thread.join(max(0.0, deadline - time.monotonic()))
    os._exit(0)


if __name__ == "__main__":
    main()
