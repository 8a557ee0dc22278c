"""Which files are followed, under which names, and what becomes of those that come and go.

Files are known by their numbers and contents (`finding`), so that

- one that was renamed away, or deleted, is read to its end, and what took its path comes after it;
- one that was truncated begins anew, after the rest of it was read from its copy, if there is one;
- a copy of a file that is followed already is not read while it holds nothing of its own;
- after a restart each file goes on at its position, wherever it is by then.

Decides what is followed from where on; `gathering` reads and sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from moldau.collect.complaints import Complaints
from moldau.collect.finding import (
    COPY_SIZE_MIN,
    Found,
    find_copy,
    find_marked,
    fits,
    holds_copy,
    is_copy,
    is_marked,
)
from moldau.collect.marks import BEGINNING, HEAD_SIZE, FileIdentity, Mark
from moldau.collect.sources import Seen, SourceFile, Sources
from moldau.collect.state import Entry
from moldau.collect.tails import CHUNK_SIZE, Tail
from moldau.collect.wanted import WantedFiles

FORGOTTEN_AFTER_MS: Final = 7 * 86_400_000
"""A week: by then a disk that was not mounted is back, or its files are others."""

COPYING_S: Final = 10.0
"""How long a copy may take from its making to its first bytes, on a busy machine."""


class _Held(NamedTuple):
    """A copy that waits until it holds something of its own, or its original is left."""

    original: Tail
    identity: FileIdentity


class Roster:
    """All files of one collector. Owned by its loop."""

    def __init__(
        self,
        wanted: WantedFiles,
        sources: Sources,
        complaints: Complaints,
        saved: list[Entry] | None,
    ) -> None:
        self.tails: dict[FileIdentity, Tail] = {}
        """What is followed; of one name the older ones first."""
        self.arrivals: list[Tail] = []
        """What is followed since this was last emptied."""
        self.is_fresh = True
        """Whether no scan has been made yet."""
        self._wanted = wanted
        self._sources = sources
        self._complaints = complaints
        self._saved = saved
        self._places: dict[str, Tail] = {}
        self._newest: dict[str, Tail] = {}
        """By name, the one that others of that name come after."""
        self._held: dict[str, _Held] = {}
        self._short: dict[str, tuple[FileIdentity, float]] = {}
        """Files too short to tell what they are, and since when they are known."""
        self._missing: dict[FileIdentity, Entry] = {}
        self._matched: set[str] = set()
        """Patterns of which a file was followed."""

    # Looking for files

    def scan(self, now: float, now_ms: int) -> None:
        """Find files that are new, or that were lost sight of."""
        found = self._unknown()
        if self.is_fresh:
            self._adopt(self._saved or (), found, now, now_ms)
        for path, seen in found.items():
            if path not in self._places:
                self.arrive(path, seen, now)
        for waiting in (self._held, self._short):
            for path in waiting.keys() - found.keys():
                del waiting[path]
        self.is_fresh = False
        for identity, entry in list(self._missing.items()):
            if identity in self.tails or now_ms - entry.gone_ms > FORGOTTEN_AFTER_MS:
                del self._missing[identity]

    def _unknown(self) -> dict[str, Seen]:
        """Return what is at those paths that match and where nothing is followed."""
        found: dict[str, Seen] = {}
        for pattern in self._wanted.patterns:
            paths = self._sources.matches([pattern])
            taken = [path for path in paths if self._wanted.takes(path)]
            for path in taken:
                if path not in self._places and path not in found:
                    seen = self._look(path)
                    if seen is not None:
                        found[path] = seen
            # A path without wildcards is always named, and `_look` says that nothing is there.
            is_followed = any(
                path in found or path in self._places or path == pattern for path in taken
            )
            self._check(pattern, is_excluded=bool(paths and not taken), is_followed=is_followed)
        return found

    def _check(self, pattern: str, *, is_excluded: bool, is_followed: bool) -> None:
        """Say why nothing of a pattern is followed."""
        about = f"what matches {pattern}"
        try:
            self._sources.check(pattern)
        except OSError as error:
            self._complaints.say(about, f"cannot read {about}: {error.strerror or error}")
            return
        if is_followed:
            self._matched.add(pattern)
        if pattern in self._matched:  # between two files of a rotation there may be none
            self._complaints.withdraw(about)
        elif is_excluded:
            self._complaints.say(about, f"all that matches {pattern} is excluded")
        else:
            self._complaints.say(about, f"no file matches {pattern} so far")

    def _look(self, path: str) -> Seen | None:
        """Look at a path; what is no file is worth a word only if the user named it himself."""
        try:
            return self._sources.look(path)
        except FileNotFoundError:
            text = f"{path} is not there: waiting for it"
        except OSError as error:
            text = f"cannot read {path}: {error.strerror or error}"
        if path in self._wanted.patterns:
            self._complaints.say(path, text)
        return None

    def _adopt(
        self, saved: Iterable[Entry], found: dict[str, Seen], now: float, now_ms: int
    ) -> None:
        """Go on with the files of an earlier run, wherever they are by now."""
        paths = {seen.identity: path for path, seen in found.items()}
        folders: dict[str, dict[FileIdentity, str]] = {}
        for entry in saved:
            if entry.identity in self.tails:
                continue
            folder = entry.name.rpartition("/")[0]
            if entry.identity not in paths and folder not in folders:
                folders[folder] = self._numbers(entry.name)
            path = paths.get(entry.identity) or folders[folder].get(entry.identity)
            try:
                where = self._found_again(entry, path)
                if where is not None:
                    is_home = where.path in found
                    self.follow(entry.name, where, entry.mark, now, is_home=is_home)
                    continue
            except OSError as error:
                self._complaints.say(entry.name, f"cannot read {path}: {error.strerror or error}")
            self._miss(entry, now_ms, is_replaced=entry.name in found)

    def _found_again(self, entry: Entry, path: str | None) -> Found | None:
        """Open what an entry is about, or a copy of it; `path` is where its number is now."""
        for one in (path, entry.name):
            if one is not None and (where := find_marked(self._sources, one, entry)) is not None:
                return where
        return find_copy(self._sources, entry.name, entry.mark, self.tails.keys())

    def _miss(self, entry: Entry, now_ms: int, *, is_replaced: bool) -> None:
        """Keep what was known of a file that is not there: its disk may come back."""
        self._missing[entry.identity] = entry._replace(gone_ms=entry.gone_ms or now_ms)
        if is_replaced and not entry.gone_ms:
            self._complaints.say(
                entry.name,
                f"{entry.name} is another file now; if more was written to the old one after"
                f" position {entry.mark.position}, it is not to be found",
            )

    def _numbers(self, name: str) -> dict[FileIdentity, str]:
        """Return the paths in the folder of a file by the numbers of what is there."""
        numbers = {}
        for path in self._sources.siblings(name):
            with suppress(OSError):
                numbers[self._sources.look(path).identity] = path
        return numbers

    # Files that come

    def arrive(self, path: str, seen: Seen, now: float) -> None:
        """Decide about a file that stands at a path where none is followed."""
        known = self.tails.get(seen.identity)
        if known is not None:
            if known.place is None and not known.is_over:
                known.place = path
                self._places[path] = known
            return
        try:
            self._take_in(path, self._sources.open(path), now)
        except OSError as error:
            self._complaints.say(path, f"cannot read {path}: {error.strerror or error}")

    def _take_in(self, path: str, file: SourceFile, now: float) -> None:
        role = None if file.look().identity in self.tails else self._role(path, file, now)
        if role is None:
            file.close()
            return
        self._complaints.withdraw(path)
        self._held.pop(path, None)
        self._short.pop(path, None)
        name, mark = role
        self.follow(name, Found(path, file), mark, now, is_home=True)

    def follow(self, name: str, found: Found, mark: Mark, now: float, *, is_home: bool) -> Tail:
        """Read a file from a mark on, after whatever else has its name."""
        tail = Tail(name, found.file, mark, self._wanted.framing, now)
        before = self._newest.get(name)
        if before is not None and not before.is_over:
            tail.after = before
        self._newest[name] = tail
        self.tails[tail.identity] = tail
        self._missing.pop(tail.identity, None)
        if is_home:
            tail.place = found.path
            self._places[found.path] = tail
        self.arrivals.append(tail)
        return tail

    def _role(self, path: str, file: SourceFile, now: float) -> tuple[str, Mark] | None:
        """Return as what and from where on a file is read; None while it may be but a copy."""
        identity = file.look().identity
        entry = self._missing.get(identity)
        if entry is not None and is_marked(Found(path, file), entry):
            return entry.name, entry.mark
        original = self._original(path, file, identity)
        if original is None:
            is_early = self._is_too_early(path, file, now)
            return None if is_early else (path, self._beginning(file))
        if self.tails.get(original.identity) is original:
            self._held[path] = _Held(original, identity)
            self._short.pop(path, None)
            return None
        mark = original.progress.done
        return (original.name, mark) if fits(file, mark) else (path, BEGINNING)

    def _is_too_early(self, path: str, file: SourceFile, now: float) -> bool:
        """Tell whether a file may be a copy that is only being made."""
        identity, size, _ = file.look()
        if size >= COPY_SIZE_MIN or not any(
            original.seen.size >= COPY_SIZE_MIN for original in self._named_before(path)
        ):
            return False
        known, since = self._short.get(path, (identity, now))
        since = since if known == identity else now
        self._short[path] = (identity, since)
        return now - since < COPYING_S

    def _named_before(self, path: str) -> Iterator[Tail]:
        """Yield the files that this one is named after; the most alike first."""
        for end in range(len(path) - 1, path.rfind("/") + 1, -1):
            if (tail := self._places.get(path[:end])) is not None:
                yield tail

    def _original(self, path: str, file: SourceFile, identity: FileIdentity) -> Tail | None:
        """Return what a file is a copy of, or was when it was first met; None if of nothing."""
        held = self._held.get(path)
        if held is not None and held.identity == identity:
            original = held.original
            is_left = self.tails.get(original.identity) is not original
            return original if is_left or _is_copy_of(file, original) else None
        return next((one for one in self._named_before(path) if _is_copy_of(file, one)), None)

    def _beginning(self, file: SourceFile) -> Mark:
        """Return where a file that nobody knows is read from."""
        if not (self.is_fresh and self._wanted.from_end and self._saved is None):
            return BEGINNING
        size = file.look().size
        start = max(0, size - CHUNK_SIZE)
        position = start + file.read(start, size - start).rfind(b"\n") + 1
        return Mark.at(position, file.read(0, min(position, HEAD_SIZE)), b"")

    # Files that go

    def depart(self, tail: Tail, now: float) -> None:
        """Take note that a file is not at its path any more; it is still read."""
        assert tail.place is not None
        self._places.pop(tail.place, None)
        tail.place = None
        tail.is_drained = False
        tail.changed_at = now

    def restart(self, tail: Tail, now: float) -> bool:
        """Begin anew with a file that was truncated; tell whether a copy has the rest of it.

        The copy takes over what is on its way: all of that can be read again there.
        """
        path = tail.place or tail.name
        copy = find_copy(self._sources, path, tail.read_mark(), self.tails.keys())
        tail.is_over = True
        del self.tails[tail.identity]
        if copy is not None:
            self._held.pop(copy.path, None)
            rest = self.follow(tail.name, copy, tail.mark(), now, is_home=False)
            rest.progress = tail.progress
        anew = Found(path, tail.file)
        self.follow(tail.name, anew, BEGINNING, now, is_home=tail.place is not None)
        return copy is not None

    def leave(self, tail: Tail) -> None:
        """Let go of a file that was read to its end and is not at its path any more."""
        self.tails.pop(tail.identity, None)
        if self._newest.get(tail.name) is tail:
            del self._newest[tail.name]
        tail.file.close()

    @property
    def is_undecided(self) -> bool:
        """Whether there are files of which it is not known yet whether they are to be read."""
        return bool(self._short)

    # What is written down

    def entries(self) -> list[Entry]:
        """Return what has been delivered of each file."""
        if self.is_fresh:
            return list(self._saved or ())
        followed = [
            Entry(tail.name, tail.identity, tail.progress.done) for tail in self.tails.values()
        ]
        return [*followed, *self._missing.values()]


def _is_copy_of(file: SourceFile, original: Tail) -> bool:
    """Tell whether a file holds what another holds, or held when it was last read."""
    return is_copy(file, original.file) or holds_copy(file, original.read_mark())
