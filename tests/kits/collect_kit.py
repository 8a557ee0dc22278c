"""A machine in memory for the collector of files: files that rotate, a topic that waits."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from fnmatch import fnmatchcase

from moldau.collect.complaints import Complaints
from moldau.collect.framing import Framing, Piece
from moldau.collect.gathering import Gathering
from moldau.collect.marks import FileIdentity
from moldau.collect.sources import Seen
from moldau.collect.state import Entry, decode, encode
from moldau.collect.wanted import WantedFiles


class Content:
    """What an inode holds."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.data = bytearray()
        self.modified_ns = 0
        self.handle_count = 0


class Handle:
    """An open file."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._is_open = True
        content.handle_count += 1

    def look(self) -> Seen:
        assert self._is_open, "a closed file was looked at"
        return seen_of(self._content)

    def read(self, position: int, size: int) -> bytes:
        assert self._is_open, "a closed file was read"
        assert position >= 0
        return bytes(self._content.data[position : position + size])

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._content.handle_count -= 1


def seen_of(content: Content) -> Seen:
    return Seen(FileIdentity(1, content.number), len(content.data), content.modified_ns)


class MemorySources:
    """Files by path. Numbers of files that are gone are given out again at once."""

    def __init__(self) -> None:
        self.files: dict[str, Content] = {}
        self.unreadable: set[str] = set()
        """Paths of files, and patterns."""
        self._known: list[Content] = []
        self._ticks = 0

    # What the machine does

    def create(self, path: str) -> Content:
        used = {
            one.number
            for one in self._known
            if one.handle_count or any(one is other for other in self.files.values())
        }
        number = next(number for number in range(1, len(used) + 2) if number not in used)
        content = self.files[path] = Content(number)
        self._known.append(content)
        return content

    def write(self, path: str, data: bytes) -> None:
        content = self.files.get(path)
        self.append(self.create(path) if content is None else content, data)

    def append(self, content: Content, data: bytes) -> None:
        self._ticks += 1
        content.data += data
        content.modified_ns = self._ticks

    def rename(self, old: str, new: str) -> None:
        self.files[new] = self.files.pop(old)

    def truncate(self, path: str) -> None:
        self._ticks += 1
        self.files[path].data.clear()
        self.files[path].modified_ns = self._ticks

    def copy(self, path: str, copy: str) -> None:
        self.files.pop(copy, None)
        self.write(copy, bytes(self.files[path].data))

    def remove(self, path: str) -> None:
        del self.files[path]

    # The port

    def matches(self, patterns: Sequence[str]) -> list[str]:
        found = dict.fromkeys(pattern for pattern in patterns if "*" not in pattern)
        for path in sorted(self.files):
            if any(fnmatchcase(path, pattern) for pattern in patterns):
                found[path] = None
        return list(found)

    def check(self, pattern: str) -> None:
        if pattern in self.unreadable:
            raise PermissionError(errno.EACCES, "Permission denied", pattern)

    def siblings(self, path: str) -> list[str]:
        folder = path.rpartition("/")[0]
        return sorted(path for path in self.files if path.rpartition("/")[0] == folder)

    def look(self, path: str) -> Seen:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return seen_of(self.files[path])

    def open(self, path: str) -> Handle:
        self.look(path)
        if path in self.unreadable:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return Handle(self.files[path])


class OnItsWay:
    """A record that was handed over."""

    def __init__(self, name: str, piece: Piece) -> None:
        self.name = name
        self.piece = piece
        self.error: Exception | None = None
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def exception(self) -> Exception | None:
        assert self._is_done
        return self.error

    def settle(self, error: Exception | None = None) -> None:
        self._is_done = True
        self.error = error


class Topic:
    """Where records go; they are acknowledged in their order, when a test says so."""

    def __init__(self) -> None:
        self.delivered: list[OnItsWay] = []
        self.waiting: list[OnItsWay] = []

    def send(self, name: str, piece: Piece) -> OnItsWay:
        self.waiting.append(OnItsWay(name, piece))
        return self.waiting[-1]

    def acknowledge(self, count: int | None = None) -> None:
        count = len(self.waiting) if count is None else count
        for one in self.waiting[:count]:
            one.settle()
        self.delivered += self.waiting[:count]
        del self.waiting[:count]

    def fail(self, error: Exception) -> None:
        for one in self.waiting:
            one.settle(error)
        self.waiting.clear()

    @property
    def values(self) -> list[bytes]:
        return [one.piece.value for one in self.delivered]


class Room:
    """A collector that is run by hand on a machine in memory, through as many lives as a test has.

    Time stands still but for `pass_time`.
    """

    def __init__(self, *patterns: str, framing: Framing | None = None, **wanted: object) -> None:
        self.sources = MemorySources()
        self.topic = Topic()
        self.said: list[str] = []
        self.now = 1_000.0
        self.wanted = WantedFiles(patterns, framing or Framing(1_000_000), **wanted)
        self.saved: bytes | None = None
        self.gathering: Gathering
        self.start()

    def start(self) -> None:
        self.gathering = Gathering(
            self.wanted,
            self.sources,
            self.topic.send,
            Complaints(self.said.append),
            None if self.saved is None else decode(self.saved),
        )

    def crash(self) -> None:
        """End at once; what was not acknowledged is gone, and so is what was not saved."""
        self.gathering.close()
        self.topic.waiting.clear()
        self.start()

    def stop(self) -> None:
        """End in order."""
        self.topic.acknowledge()
        self.save()
        self.gathering.close()

    def scan(self) -> None:
        self.gathering.scan(self.now, round(self.now * 1000))

    def turns(self, count: int = 10_000) -> None:
        for _ in range(count):
            if not self.gathering.turn(self.now):
                return

    def pass_time(self, seconds: float = 10.0) -> None:
        """Let time pass until every file is due, and serve them all."""
        self.now += seconds
        self.scan()
        self.turns()

    def save(self) -> None:
        self.gathering.settle()
        self.saved = encode(self.gathering.entries())

    def entries(self) -> list[Entry]:
        return self.gathering.entries()

    def read_all(self) -> list[bytes]:
        """Read and deliver everything there is; return all that was delivered so far."""
        for _ in range(1_000):
            self.pass_time()
            self.topic.acknowledge()
            self.gathering.settle()
            if self.gathering.is_at_end and self.gathering.is_idle:
                return self.topic.values
        raise AssertionError("it does not come to an end")
