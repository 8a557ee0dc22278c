"""Pipelines as processes, as users start them: their commands, how they go, and their ends.

What a run leaves behind on disk tells where it is, also when nobody is there any more to ask.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from moldau.spark.pipelines.declaration import Kind, Pipeline
from moldau.spark.pipelines.stage import LANDING
from moldau.spark.source.offsets import StreamOffset


def command(*words: object) -> list[str]:
    """Return a command of `moldau pipeline`."""
    return [str(Path(sys.executable).with_name("moldau")), "pipeline", *map(str, words)]


def run_words(
    pipeline: Pipeline,
    options: Mapping[str, Any],
    address: str,
    out: Path,
    *,
    batch_rows: int,
    settings: Mapping[str, str],
) -> list[str]:
    """Return the command that runs a pipeline until it is stopped, batch after batch.

    `options` are those that the pipeline declares, as its code has them; `settings` are Spark's.
    """
    return command(
        "run", pipeline.name, "--bootstrap", address, "--out", out,
        "--batch-rows", batch_rows, "--trigger", "0",
        *_option_words(pipeline, options),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
    )  # fmt: skip


def _option_words(pipeline: Pipeline, options: Mapping[str, Any]) -> Iterator[object]:
    kinds = {one.name: one.kind for one in pipeline.options}
    for name, value in options.items():
        if value is not None:
            yield f"--{name}"
            yield f"{value // 1000}s" if kinds[name] is Kind.DURATION else value


def status(out: Path) -> dict[str, Any]:
    """Return what `moldau pipeline status` says."""
    words = command("status", "--out", out, "-o", "json")
    told: dict[str, Any] = json.loads(subprocess.check_output(words))
    return told


def handled(out: Path, query: str = LANDING) -> int:
    """Return how many records of its topic a query of a pipeline is through with."""
    done = _newest(out, "commits", query)
    if done < 0:
        return 0
    *_, last = (_checkpoint(out, query) / "offsets" / str(done)).read_text().splitlines()
    return sum(StreamOffset.from_json(json.loads(last)).positions.values())


def batch_under_way(out: Path, *, with_rows: bool = False) -> int:
    """Return the number of the batch that Spark has planned and not committed; -1 without one.

    `with_rows`: only once some of its rows are written.
    """
    planned = _newest(out, "offsets")
    if planned == _newest(out, "commits"):
        return -1
    began_ns = (_checkpoint(out) / "offsets" / str(planned)).stat().st_mtime_ns
    return -1 if with_rows and _rows_written_ns(out) < began_ns else planned


def _checkpoint(out: Path, query: str = LANDING) -> Path:
    return out / "_moldau" / "checkpoint" / query


def _newest(out: Path, log: str, query: str = LANDING) -> int:
    names = (path.name for path in (_checkpoint(out, query) / log).glob("[0-9]*"))
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _rows_written_ns(out: Path) -> int:
    """Return when the newest file of rows was written."""
    newest = 0
    for table in out.glob("[!_]*"):
        # Unlike a glob, a walk passes over folders that Spark removes meanwhile.
        for folder, _, names in os.walk(table):
            for name in names:
                if name.endswith(".parquet"):
                    with contextlib.suppress(FileNotFoundError):  # put aside, and moved
                        newest = max(newest, (Path(folder) / name).stat().st_mtime_ns)
    return newest


@contextlib.contextmanager
def process(
    words: Sequence[str], said: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a group of processes of its own, and leave none of them."""
    with said.open("ab") as sink:
        started = subprocess.Popen(
            words, stderr=sink, start_new_session=True, env={**os.environ, **environment}
        )
    try:
        yield started
    finally:
        kill(started)


def kill(started: subprocess.Popen[bytes]) -> None:
    """End a group of processes without a word."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, 9)
    started.wait()
