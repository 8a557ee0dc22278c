"""The page `bench/SPARK.md`, in the form of `bench/RESULTS.md`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

import pyspark

from bench.bars import Better, Measure
from bench.report import machine, spread, verdict
from bench.spark.contests import OFFICIAL, OURS
from bench.spark.results import (
    AGAINST_OFFICIAL,
    MAIN_CORES,
    ONCE,
    SECOND_CORE,
    VARIANTS,
    Pair,
    Results,
)
from bench.spark.scale import QUICK

_NAMES = {OFFICIAL: "Spark's own", OURS: "Moldau"}


def render(results: Results) -> str:
    """Return the whole page."""
    lines = ["# Spark: results", "", *_about(results), ""]
    lines += _compared(_NAMES[OFFICIAL], _NAMES[OURS])
    lines += _rows(results, AGAINST_OFFICIAL)
    lines += ["", *_compared(ONCE[0].baseline, ONCE[0].candidate), *_rows(results, ONCE)]
    lines += _section(
        "What each part of the source brings",
        "Batch reads by Moldau's source as it is, and with one thing changed.",
        _compared("as it is", "changed"),
        _rows(results, VARIANTS),
    )
    lines += _section(
        "What a second core adds",
        "`local[1]` runs one task at a time; what a task has running beside it, a Python worker "
        "and the broker, finds the other core free even so.",
        _heading("work", "by", "local[1], k rows/s", "local[2], k rows/s", "gain"),
        _cores(results),
    )
    lines += _section(
        "What an idle trigger costs",
        "A stream over six partitions without news, a trigger every 500 ms: the CPU it costs "
        "beyond what the session uses without it.",
        _heading("source", "Spark's CPU, ms", "the broker's CPU, ms"),
        _idle(results),
    )
    activity = (f"- {line}" for line in results.activity)
    lines += _section("The activity pipeline", "By `python -m bench.spark.activity`.", (), activity)
    return "\n".join(lines) + "\n"


def _about(results: Results) -> Iterator[str]:
    scale = results.scale
    yield (
        "Moldau's source and sink against Spark's own Kafka connector 4.2.0, both on PySpark "
        f"{pyspark.__version__} and on {results.broker}, `python -m bench.spark.run`. Medians of "
        f"{scale.rounds} rounds after {scale.warm_ups} to warm up, least and greatest in brackets; "
        "a ratio is taken within one round, and the sides take turns in going first. A bar is met "
        "where every round clears it; where only some do, the table says how many."
    )
    if scale is QUICK:
        yield ""
        yield "**This scale only tries the harness: nothing here says how the two compare.**"
    yield ""
    yield f"{machine()}."
    yield ""
    yield (
        f"`local[{MAIN_CORES}]`, a driver of 2 GB, everything else as Spark has it; the broker on "
        "the same cores. Topics of six partitions. A read takes every column of every row: rows go "
        "to the `noop` sink, for which both connectors make them whole. What is read was written "
        "by librdkafka with keys of 10 bytes, in batches of 1 MB where nothing else is said. "
        f"{scale.small_rows:,} rows of 100 B, {scale.large_rows:,} of 1 KB, "
        f"{scale.written_rows:,} written, {scale.once_rows:,} in a transaction. CPU is that of the "
        "virtual machine and of Python's workers, without the broker's. The run took "
        f"{results.minutes:.0f} minutes."
    )


def _section(title: str, about: str, heading: Sequence[str], content: Iterable[str]) -> list[str]:
    """Return a section of the page; nothing if it has no rows."""
    rows = list(content)
    return ["", f"## {title}", "", about, "", *heading, *rows] if rows else []


def _heading(*titles: str) -> list[str]:
    return [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]


def _compared(baseline: str, candidate: str) -> list[str]:
    return _heading("work", "unit", baseline, candidate, "ratio", "bar", "met")


def _rows(results: Results, pairs: Iterable[Pair]) -> Iterator[str]:
    for pair in pairs:
        taken = results.compared(pair)
        if not taken:
            continue
        rates = [(theirs.rate, ours.rate) for theirs, ours in taken]
        costs = [(theirs.cpu_us, ours.cpu_us) for theirs, ours in taken]
        yield _row(pair.title, "k rows/s", rates, pair)
        yield _row(f"{pair.title}: CPU", "us/row", costs, None)


def _row(title: str, unit: str, rounds: list[tuple[float, float]], pair: Pair | None) -> str:
    theirs, ours = ([each[side] for each in rounds] for side in (0, 1))
    ratios = [one / other for other, one in rounds if other]
    bar = met = "-"
    if pair is not None and pair.bar is not None:
        measure = Measure(pair.contest, "rate", title, unit, Better.MORE, pair.bar)
        bar, met = f"{measure.better.value} {measure.bar:g}x", verdict(measure, ratios)
    cells = (title, unit, spread(theirs), spread(ours), f"{spread(ratios)}x", bar, met)
    return f"| {' | '.join(cells)} |"


def _cores(results: Results) -> Iterator[str]:
    for contest, title in SECOND_CORE:
        for side, name in _NAMES.items():
            one, two = (results.rates(contest, cores, side) for cores in (1, MAIN_CORES))
            if one and two:
                gain = statistics.median(two) / statistics.median(one)
                yield f"| {title} | {name} | {spread(one)} | {spread(two)} | {gain:.2f}x |"


def _idle(results: Results) -> Iterator[str]:
    for side, name in _NAMES.items() if results.idle else ():
        spark_ms, broker_ms = zip(*(each[side] for each in results.idle), strict=True)
        yield f"| {name} | {spread(list(spark_ms))} | {spread(list(broker_ms))} |"
