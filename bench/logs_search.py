"""How long a search in a day of logs takes: `python -m bench.logs_search`, some three minutes.

A table of one day is made with the pipeline's own writer, ten million rows unless told otherwise,
as appends every ten seconds leave it just before files are merged again, when there are most of
them. Then each question is asked again and again, in a process of its own as `moldau logs search`
is, and within one process. Files are in the page cache. One table is printed: of the command the
best, the median, the worst, whether the median keeps to the bar and the CPU time in the median, of
the search alone the median, how many rows were found, and how many row groups of how many were
read. Below it stands what other guests of the machine took meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.usage import Stolen
from moldau.spark.pipelines.logs.layout import SCHEMA, write_rows
from moldau.spark.pipelines.logs.search import Question, search
from moldau.spark.pipelines.logs.sketches import sketch_place
from moldau.spark.pipelines.storage import FileEntry
from moldau.spark.pipelines.tables.appending import parquet_bytes
from moldau.spark.pipelines.tables.committed import LOG
from moldau.spark.pipelines.tables.file_log import COMPACT_EVERY
from moldau.spark.pipelines.tables.merging import MERGED, plan

BAR_S = 1.0
"""What a question is to keep to in the median. A machine that is busy elsewhere puts a run of any
of them above it now and then, also of those that hardly read anything; the worst shows that."""

DAY = "2026-11-15"
DAY_US = 1_794_700_800_000_000
APPEND_US = 10_000_000
APPENDS = 86_400_000_000 // APPEND_US - 1
"""Of a day but for the last, with which files would be merged."""
LEVELS = {"INFO": 0.80, "DEBUG": 0.08, "WARN": 0.07, "ERROR": 0.05}
ROW_SIZE = 96
"""Bytes that a row takes in a file, about: which files are merged depends on their sizes."""

WORDS = ["request", "order", "payment", "session", "cart", "cache", "database", "query", "index"]
VERBS = ["accepted", "rejected", "created", "expired", "loaded", "stored", "failed", "refreshed"]

QUESTIONS: dict[str, list[str]] = {
    "the newest": [],
    "the last 15 minutes, digits that are nowhere": ["--since", f"@{DAY}T23:45:00Z",
                                                     "--text", "u-777777"],
    "errors of ten minutes": ["--level", "error", "--since", f"@{DAY}T12:00:00Z",
                              "--until", f"@{DAY}T12:10:00Z"],
    "a host": ["--host", "web-17"],
    "a host that is nowhere": ["--host", "web-17b"],
    "a service and a level": ["--service", "service-3", "--level", "warn"],
    "a word of every row": ["--text", "request"],
    "a word of every row, 1000 rows": ["--text", "request", "-n", "1000"],
    "a word that is nowhere": ["--text", "NullPointerException"],
    "a word that is nowhere, either case": ["-i", "--text", "nullpointerexception"],
    "three letters that are nowhere": ["--text", "xyz"],
    "three letters that are nowhere, either case": ["-i", "--text", "xyz"],
    "digits that are nowhere": ["--text", "u-777777"],
    "a phrase of common words": ["--text", "payment payment failed by"],
    "a phrase in a hundred rows of the day": ["--text", "by u-47110 "],
    "a number in a hundred rows of the day": ["--text", "47110"],
    "a number that is nowhere": ["--text", "777123456"],
    "a word in four rows, at noon": ["--text", "quincunx"],
    "an id inside messages, in four rows": ["--text", "feedfacecafebeef"],
    "an id that is nowhere": ["--text", "8f3a9c2e11d04b7e"],
    "three common texts": ["--text", "cart", "--text", "failed", "--text", "u-47"],
    "two texts that are never together": ["--text", "by u-47110 ", "--text", "took 4711 ms"],
    "a text without another": ["--text", "failed", "--not", "payment"],
    "an expression": ["--regex", r"cart \w+ failed by u-\d{3} "],
    "an expression that is nowhere": ["--regex", r"took 9\d{3} ms"],
    "a field with a common value": ["--field", "status=503"],
    "a field with a number": ["--field", "duration_ms=4711"],
    "a field in a hundred rows of the day": ["--field", "user=u-47110"],
    "a field with an id, in four rows": ["--field", "request_id=feedfacecafebeef"],
    "a field with a value that is nowhere": ["--field", "request_id=8f3a9c2e11d04b7e"],
    "two fields, one of them in nearly all rows": ["--field", "status=200",
                                                   "--field", "duration_ms=4711"],
    "two fields, one of them in a hundred rows": ["--field", "status=503",
                                                  "--field", "user=u-47110"],
    # Where every row must be taken apart, or many for the few that are shown:
    "a hundred rows of the day, with fields": ["--text", "by u-47110 ", "-o", "json"],
    "without a word of every row": ["--not", "request"],
    "an expression at the edges, in few rows": ["--regex", r"^cart cart \w+ by u-4711\d\b"],
    "an expression of digits that is nowhere": ["--regex", r"\d{7} ms"],
    "two common fields, seldom together": ["--field", "status=503", "--field", "duration_ms=4711"],
    "these, a host and a common text": ["--field", "status=503", "--field", "duration_ms=4711",
                                        "--text", "failed", "--host", "web-17"],
}  # fmt: skip
"""What is asked, by a name for it."""


def main() -> None:
    """Make a table if there is none, and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, help="where the table is, or is to be and to stay")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = given.table or Path(folder)
        if not (out / "logs" / LOG).exists():
            make_table(out / "logs", given.rows)
        ask_all(out, given.rounds)


# Which files a day has


class Planned(NamedTuple):
    """A file that is to be made: the rows of a level that some appends have brought."""

    level: str
    name: str
    first: int
    end: int
    row_count: int


def planned(level: str, row_count: int) -> list[Planned]:
    """Return the files of a level after a day of appends, merged as the pipeline does it."""
    spans: dict[str, tuple[int, int]] = {}

    def entry(first: int, end: int, name: str) -> FileEntry:
        path = f"/{name}"
        spans[path] = first, end
        rows = _row_until(end, row_count) - _row_until(first, row_count)
        return FileEntry(path, path, rows * ROW_SIZE, 0, 0, 0)

    files: list[FileEntry] = []
    for number in range(APPENDS):
        merges = plan(files, {}) if number % COMPACT_EVERY == COMPACT_EVERY - 1 else []
        for place, merge in enumerate(merges):
            firsts, ends = zip(*(spans[file.path] for file in merge), strict=True)
            files = [file for file in files if file not in merge]
            name = f"part-{number:010}{MERGED}{place}.parquet"
            files.append(entry(min(firsts), max(ends), name))
        files.append(entry(number, number + 1, f"part-{number:010}-0.parquet"))
    found = []
    for file in files:
        first, end = spans[file.path]
        rows = _row_until(end, row_count) - _row_until(first, row_count)
        found.append(Planned(level, file.name, first, end, rows))
    return [file for file in found if file.row_count]


def _row_until(append: int, row_count: int) -> int:
    return append * row_count // APPENDS


# Their rows


def make_table(table: Path, row_count: int) -> None:
    """Write the files of a day, as many at once as there are cores."""
    began = time.perf_counter()
    files = [
        one for level, share in LEVELS.items() for one in planned(level, int(row_count * share))
    ]
    folders = {level: table / f"date={DAY}" / f"level={level}" for level in LEVELS}
    for folder in folders.values():
        folder.mkdir(parents=True)
    paths = [folders[file.level] / file.name for file in files]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        made = [*pool.map(make_file, paths, files)]
    (table / LOG).mkdir()
    lines = [json.dumps({"path": f"file:{path.absolute()}"}) for path in paths]
    (table / LOG / "0").write_text("\n".join(["v1", *lines]))
    size, sketched, cpu_s = (sum(column) for column in zip(*made, strict=True))
    print(
        f"{row_count:,} rows in {len(paths)} files of {size / 1e6:.0f} MB, sketches"
        f" {sketched / 1e6:.0f} MB; made in {time.perf_counter() - began:.0f} s, written in"
        f" {cpu_s:.0f} s of CPU time"
    )


def make_file(path: Path, file: Planned) -> tuple[int, int, float]:
    """Write a file; return its size, that of its sketches and how long writing took."""
    random = np.random.default_rng([*LEVELS].index(file.level) * APPENDS + file.first)
    first_us, end_us = (DAY_US + one * APPEND_US for one in (file.first, file.end))
    rare = file.first <= APPENDS // 2 < file.end
    rows = made_up(random, file.row_count, first_us, end_us, rare=rare)
    began = time.process_time()
    sketches = None
    if MERGED in file.name:
        with path.open("wb") as sink:
            sketches = write_rows(rows, sink)
        if sketches is not None:
            Path(sketch_place(str(path))).write_bytes(sketches)
    else:
        path.write_bytes(parquet_bytes(rows))
    return path.stat().st_size, len(sketches or b""), time.process_time() - began


def made_up(
    random: np.random.Generator, count: int, first_us: int, last_us: int, *, rare: bool
) -> pa.Table:
    """Return rows of a span of time, with messages of about a hundred bytes."""
    times = np.sort(random.integers(first_us, last_us, count))
    ids = hex_ids(random, count)
    users = texts("u-", random.integers(0, 100_000, count))
    took = texts("", random.integers(0, 5000, count))
    address = texts("10.0.", random.integers(0, 256, count), ".", random.integers(0, 256, count))
    messages = pc.binary_join_element_wise(
        pick(random, WORDS, count), pick(random, WORDS, count), pick(random, VERBS, count), "by",
        users, "from", address, "request", ids, "took", took, "ms", " ",
    )  # fmt: skip
    if rare:
        place = pa.array(np.arange(count) == count // 2)
        messages = pc.if_else(place, "a quincunx was planted by feedfacecafebeef", messages)
        ids = pc.if_else(place, "feedfacecafebeef", ids)
    status = pick(random, ["200"] * 95 + ["404", "500", "503", "302", "301"], count)
    fields = [("request_id", ids), ("user", users), ("status", status), ("duration_ms", took),
              ("client", address)]  # fmt: skip
    columns = {
        "time": pa.array(times, pa.timestamp("us", "UTC")),
        "host": texts("web-", random.integers(0, 50, count)),
        "service": texts("service-", random.integers(0, 12, count)),
        "path": texts("/var/log/service-", random.integers(0, 12, count), "/app.log"),
        "message": messages,
        "fields": maps(fields, count),
        "stack": pa.nulls(count, pa.string()),
        "format": pa.array(["json"] * count),
        "late": pa.array(np.zeros(count, dtype=np.bool_)),
        "topic": pa.array(["logs"] * count),
        "partition": pa.array(np.zeros(count, dtype=np.int32)),
        "offset": pa.array(np.arange(count)),
        "batch": pa.array(times // 1_000_000),
    }
    return pa.table([columns[name] for name in SCHEMA.names], SCHEMA.names)


def hex_ids(random: np.random.Generator, count: int) -> pa.Array:
    """Return ids of sixteen hexadecimal digits."""
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    data = digits[random.integers(0, 16, count * 16)]
    fixed = pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(data)])
    return fixed.cast(pa.binary()).cast(pa.string())


def texts(*parts: str | npt.NDArray[np.int64]) -> pa.Array:
    """Join texts and numbers."""
    joined = [pa.scalar(one) if isinstance(one, str) else pa.array(one).cast(pa.string())
              for one in parts]  # fmt: skip
    return pc.binary_join_element_wise(*joined, "")


def pick(random: np.random.Generator, choices: Sequence[str], count: int) -> pa.Array:
    """Return some of several texts."""
    return pa.array(choices).take(pa.array(random.integers(0, len(choices), count)))


def maps(fields: Sequence[tuple[str, pa.Array]], count: int) -> pa.Array:
    """Return the fields of rows, one column after the other."""
    size = len(fields)
    order = np.arange(count * size).reshape(size, count).T.ravel()
    keys = pa.array([name for name, _ in fields] * count)
    items = pa.chunked_array([values for _, values in fields]).combine_chunks().take(order)
    return pa.MapArray.from_arrays(pa.array(np.arange(count + 1) * size, pa.int32()), keys, items)


# Asking


def ask_all(out: Path, rounds: int) -> None:
    """Ask every question so often, one after the other in turn, and print how long that took."""
    whole: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    used: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    inner: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    found: dict[str, tuple[int, str]] = {}
    stolen = Stolen()
    for _ in range(rounds):
        for name, words in QUESTIONS.items():
            took, used_s = timed_command(out, words)
            whole[name].append(took)
            used[name].append(used_s)
            took, rows, read = timed_search(out, words)
            inner[name].append(took)
            found[name] = rows, read
    share = stolen.share()
    heads = "best s", "command s", "worst s", "", "CPU s", "search s", "rows", "read"
    print(form("question", *heads))
    for name, times in whole.items():
        median = statistics.median(times)
        of_command = (f"{one:.2f}" for one in (min(times), median, max(times)))
        others = (f"{statistics.median(one[name]):.2f}" for one in (used, inner))
        met = "met" if median <= BAR_S else "missed"
        print(form(name, *of_command, met, *others, *map(str, found[name])))
    print(f"{share:.0%} of the processors' time went to other guests of the machine")


def form(name: str, *figures: str) -> str:
    """Return a line of the table."""
    return f"{name:46}" + "".join(f"{one:>10}" for one in figures)


def timed_command(out: Path, words: Sequence[str]) -> tuple[float, float]:
    """Run the command; return the seconds it took, and those of CPU time."""
    command = [str(Path(sys.executable).with_name("moldau")), "logs", "search", "--out", str(out)]
    began, used_s = time.perf_counter(), _used_by_commands_s()
    subprocess.run([*command, *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began, _used_by_commands_s() - used_s


def _used_by_commands_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed_search(out: Path, words: Sequence[str]) -> tuple[float, int, str]:
    """Search here; return the seconds, the rows found, and the row groups read of all."""
    from moldau.cli.logs import question_of  # noqa: PLC0415
    from moldau.cli.logs import search as command  # noqa: PLC0415 - not part of what is timed

    context = command.make_context("search", ["--out", str(out), *words])
    question: Question = question_of(context.params)
    began = time.perf_counter()
    answer = search(out / "logs", question)
    took = time.perf_counter() - began
    return took, len(answer.rows), f"{answer.effort.read}/{answer.effort.groups}"


if __name__ == "__main__":
    main()
