"""How long a search in a day of logs takes: `python -m bench.logs_search`.

A table of one day is made with the pipeline's own writer, ten million rows unless told otherwise,
and kept for the next run if `--table` names a folder. Then each question is asked again and again,
in a process of its own as `moldau logs search` is, and within one process; of both the median and
the spread are printed, and how many row groups had to be read. Files are in the page cache.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from moldau.spark.pipelines.logs.committed import LOG
from moldau.spark.pipelines.logs.layout import SCHEMA, write_rows
from moldau.spark.pipelines.logs.search import Question, search
from moldau.spark.pipelines.logs.sketches import sketch_place

DAY = "2026-11-15"
DAY_US = 1_794_700_800_000_000
LEVELS = {"INFO": 0.80, "DEBUG": 0.08, "WARN": 0.07, "ERROR": 0.05}
FILE_ROWS = 350_000
"""Of a file of 32 MB, the size at which merging leaves files alone."""

WORDS = ["request", "order", "payment", "session", "cart", "cache", "database", "query", "index"]
VERBS = ["accepted", "rejected", "created", "expired", "loaded", "stored", "failed", "refreshed"]

QUESTIONS: dict[str, list[str]] = {
    "the newest": [],
    "errors of ten minutes": ["--level", "error", "--since", "@2026-11-15T12:00:00Z",
                              "--until", "@2026-11-15T12:10:00Z"],
    "a host": ["--host", "web-17"],
    "a host that is not there": ["--host", "web-17b"],
    "a service and a level": ["--service", "service-3", "--level", "warn"],
    "a common word": ["--text", "payment"],
    "a word that is nowhere": ["--text", "NullPointerException"],
    "a phrase of common words": ["--text", "payment payment failed by"],
    "a word in four rows of the day": ["--text", "quincunx"],
    "an id inside messages, in four rows": ["--text", "feedfacecafebeef"],
    "an id that is nowhere": ["--text", "8f3a9c2e11d04b7e"],
    "digits that are nowhere: all is read": ["--text", "u-777777"],
    "a word that is nowhere, either case": ["-i", "--text", "nullpointerexception"],
    "a field with a common value": ["--field", "status=503"],
    "a field with an id, in four rows": ["--field", "request_id=feedfacecafebeef"],
    "a field with a value that is nowhere": ["--field", "request_id=8f3a9c2e11d04b7e"],
}  # fmt: skip


def main() -> None:
    """Make a table if there is none, and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, help="where the table is, or is to be")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = given.table or Path(folder)
        if not (out / "logs" / LOG).exists():
            make_table(out / "logs", given.rows)
        ask_all(out, given.rounds)


# The table


def make_table(table: Path, row_count: int) -> None:
    """Write a table of one day, in files as merging leaves them."""
    began = time.process_time()
    random = np.random.default_rng(7)
    paths = []
    for level, share in LEVELS.items():
        folder = table / f"date={DAY}" / f"level={level}"
        folder.mkdir(parents=True)
        for number, rows in enumerate(day(random, int(row_count * share))):
            path = folder / f"part-0000000009-merged-{number}.parquet"
            with path.open("wb") as sink:
                sketches = write_rows(rows, sink)
            if sketches is not None:
                Path(sketch_place(str(path))).write_bytes(sketches)
            paths.append(path)
    (table / LOG).mkdir()
    lines = [json.dumps({"path": f"file:{path.absolute()}"}) for path in paths]
    (table / LOG / "0").write_text("\n".join(["v1", *lines]))
    size = sum(path.stat().st_size for path in paths)
    sketched = sum(Path(sketch_place(str(path))).stat().st_size for path in paths)
    print(
        f"{row_count:,} rows in {len(paths)} files of {size / 1e6:.0f} MB, sketches"
        f" {sketched / 1e6:.0f} MB; written in {time.process_time() - began:.0f} s of CPU time"
    )


def day(random: np.random.Generator, row_count: int) -> Iterator[pa.Table]:
    """Yield the rows of a level, the earliest first, so many to a file."""
    files = max(1, round(row_count / FILE_ROWS))
    for number in range(files):
        count = row_count // files
        first, last = (86_400_000_000 * one // files for one in (number, number + 1))
        yield made_up(random, count, DAY_US + first, DAY_US + last, rare=number == files // 2)


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
    inner: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    for _ in range(rounds):
        for name, words in QUESTIONS.items():
            whole[name].append(timed_command(out, words))
            inner[name].append(timed_search(out, words)[0])
    print(f"{'question':42}{'command s':>22}{'search s':>22}{'rows':>6}{'read':>9}")
    for name, words in QUESTIONS.items():
        _, rows, read = timed_search(out, words)
        print(f"{name:42}{spread(whole[name]):>22}{spread(inner[name]):>22}{rows:6}{read:>9}")


def timed_command(out: Path, words: Sequence[str]) -> float:
    """Run the command; return the seconds it took."""
    command = [str(Path(sys.executable).with_name("moldau")), "logs", "search", "--out", str(out)]
    began = time.perf_counter()
    subprocess.run([*command, *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


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


def spread(times: Sequence[float]) -> str:
    """Write the median, and the least and the greatest."""
    return f"{statistics.median(times):.2f} ({min(times):.2f}-{max(times):.2f})"


if __name__ == "__main__":
    main()
