"""The collector of files: any pieces, any rotation, any crash; every line at least once, in order.

A log is written, torn into pieces, rotated by rename and by copytruncate, while a collector looks
at it now and then, is told of acknowledgements, writes down positions, and crashes. Whatever the
order: in the end every line has been delivered, those of one file in their order, and none twice
unless there was a crash.
"""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.collect_kit import Content, Room
from moldau.collect.finding import COPY_SIZE_MIN
from moldau.collect.framing import Beginnings, Framing, Splitter

LOG = "/logs/app.log"
ROTATED_MAX = 5
FOREVER_S = 1e9


class Writer:
    """Writes numbered lines, and remembers which file each was written to."""

    def __init__(self, room: Room) -> None:
        self._sources = room.sources
        self._number = 0
        self._begun = b""
        """What is missing of the line that was begun."""
        self._generation = 0
        self.lines: dict[int, list[bytes]] = defaultdict(list)
        """By file, or what it held between two truncations."""
        self._generations: dict[int, int] = {}
        self._sources.create(LOG)

    def _next(self, content: Content) -> bytes:
        self._number += 1
        line = b"%06d %s" % (self._number, b"." * 80)
        key = self._generations.setdefault(id(content), self._generation)
        self.lines[key].append(line)
        self._kept = content  # so that its id is nobody else's
        return line + b"\n"

    def write(self, count: int) -> None:
        self.finish()
        for _ in range(count):
            content = self._sources.files[LOG]
            self._sources.append(content, self._next(content))

    def tear(self, size: int) -> None:
        """Write a part of a line."""
        content = self._sources.files[LOG]
        if not self._begun:
            self._begun = self._next(content)
        piece, self._begun = self._begun[:size], self._begun[size:]
        self._sources.append(content, piece)

    def finish(self) -> None:
        self.tear(1_000) if self._begun else None

    def write_late(self, count: int) -> None:
        """Write to the file that was renamed last, as who has not noticed does."""
        content = self._sources.files.get(f"{LOG}.1")
        if content is not None and id(content) in self._generations:
            for _ in range(count):
                self._sources.append(content, self._next(content))

    def rename(self) -> None:
        self.finish()
        self._shift()
        self._sources.rename(LOG, f"{LOG}.1")
        self._generation += 1
        self._sources.create(LOG)

    def copy_and_truncate(self) -> None:
        self.finish()
        self._shift()
        self._sources.copy(LOG, f"{LOG}.1")
        self._sources.truncate(LOG)
        self._generation += 1
        self._generations[id(self._sources.files[LOG])] = self._generation

    def _shift(self) -> None:
        for number in range(ROTATED_MAX * 20, 0, -1):
            if f"{LOG}.{number}" in self._sources.files:
                self._sources.rename(f"{LOG}.{number}", f"{LOG}.{number + 1}")


def act(room: Room, writer: Writer, action: tuple[str, int]) -> None:
    name, number = action
    if name in ("turns", "scan"):
        room.now += number
    {
        "write": lambda: writer.write(number),
        "tear": lambda: writer.tear(number * 20),
        "late": lambda: writer.write_late(number),
        "rename": writer.rename,
        "truncate": writer.copy_and_truncate,
        "turns": lambda: room.turns(number),
        "scan": room.scan,
        "look": lambda: room.pass_time(number),
        "acknowledge": lambda: room.topic.acknowledge(number),
        "save": room.save,
        "crash": room.crash,
    }[name]()


def check(room: Room, writer: Writer, *, once: bool) -> None:
    writer.finish()
    delivered = room.read_all()
    whole = {line for lines in writer.lines.values() for line in lines}
    # The beginning of a line that was truncated away before it could be known again in a copy.
    torn = {value for value in delivered if len(value) < COPY_SIZE_MIN}
    assert all(any(line.startswith(value) for line in whole) for value in torn)
    delivered = [value for value in delivered if value not in torn]
    assert set(delivered) == whole
    if once:
        assert len(delivered) == len(whole)
    first = {line: index for index, line in reversed(list(enumerate(delivered)))}
    for lines in writer.lines.values():
        places = [first[line] for line in lines]
        assert places == sorted(places)


def actions(*names: str) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(1, 5)), min_size=6, max_size=40)


COLLECTING = ("write", "tear", "look", "look", "turns", "scan", "acknowledge", "save")


@settings(max_examples=150)
@given(actions(*COLLECTING, "rename", "late", "truncate"))
def test_any_rotation_gives_every_line_once_and_in_order(story):
    room = Room(f"{LOG}*", rotated_wait_s=FOREVER_S)
    writer = Writer(room)
    for action in story:
        act(room, writer, action)
    check(room, writer, once=True)


@settings(max_examples=250)
@given(actions(*COLLECTING, "rename", "late", "truncate", "crash"))
def test_any_crash_gives_every_line_at_least_once_and_in_order(story):
    room = Room(f"{LOG}*", rotated_wait_s=FOREVER_S)
    writer = Writer(room)
    for action in story:
        act(room, writer, action)
    check(room, writer, once=("crash" not in {name for name, _ in story}))


@settings(max_examples=150)
@given(actions(*COLLECTING, "crash"), st.lists(st.integers(0, 40), max_size=3))
def test_a_file_renamed_out_of_sight_is_read_to_its_end_also_after_a_crash(story, rotations):
    """The pattern is the log's own path: what is renamed is known by its number alone."""
    room = Room(LOG, rotated_wait_s=FOREVER_S)
    writer = Writer(room)
    is_noticed = True
    for index, action in enumerate(story):
        if index in rotations and is_noticed:
            room.pass_time()
            room.topic.acknowledge()
            room.save()
            writer.rename()
            is_noticed = False
        act(room, writer, action)
        if action[0] == "look":
            room.save()
            is_noticed = True
    check(room, writer, once=("crash" not in {name for name, _ in story}))


TEXT = st.lists(st.sampled_from([b"\n", b"  at", b"a", b"ERROR x", b"\r", b"\xff"]), max_size=60)


@settings(max_examples=200)
@given(
    TEXT,
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from([None, Beginnings.of(r"\S"), Beginnings.of(r"\s", if_matched=False)]),
    st.integers(1, 5),
)
def test_the_pieces_in_which_a_file_is_read_make_no_difference(
    text, sizes, size_max, keeps_cut, beginnings, count
):
    data = b"".join(text)
    framing = Framing(size_max, keeps_cut, beginnings)
    whole = framed(framing, data, [len(data) or 1], 1_000)
    assert framed(framing, data, sizes, count) == whole
    # Together they are the file, without a gap, and what is whole is what stands there.
    position = 0
    for value, start, size, is_whole in whole:
        assert start == position
        position += size
        raw = data[start:position]
        if is_whole:
            assert value == raw.removesuffix(b"\n") if raw.endswith(b"\n") else value == raw
        else:
            assert value == (raw[:size_max] if keeps_cut else b"")
    assert position == len(data)


def framed(framing, data, sizes, count):
    splitter = Splitter(framing)
    pieces, position, turn = [], 0, 0
    while position < len(data):
        size = sizes[turn % len(sizes)]
        turn += 1
        splitter.push(data[position : position + size])
        position += size
        while taken := splitter.take(count):
            pieces += taken
            assert_is_where_it_says(splitter, framing, data)
    return pieces + splitter.flush(partial=True)


def assert_is_where_it_says(splitter, framing, data):
    """The tail is what stands before the position; beginning there again gives the rest."""
    assert data[: splitter.position].endswith(splitter.tail)
