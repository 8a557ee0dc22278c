"""The table of the clients: medians, spread, ratios, bars."""

from __future__ import annotations

from importlib.metadata import version

from bench.clients.bars import COMPARISONS, Comparison
from bench.report import Figures, machine, spread, verdict

CLIENTS = ("moldau", "aiokafka", "kafka-python", "confluent-kafka")


def render(rounds: list[Figures], broker: str, form: str) -> str:
    """Return the whole page, which names the broker and the form of our client."""
    versions = ", ".join(f"{name} {version(name)}" for name in CLIENTS)
    about = (
        f"Moldau's client ({form}) against others, `python -m bench.clients.run`, {len(rounds)}"
        f" rounds. All on one broker, {broker}, one process each, in turns. Medians over the"
        " rounds, least and greatest in brackets; a ratio is ours / theirs within one round. A bar"
        " is met where every round clears it; where only some do, the table says how many."
    )
    lines = [
        "# Results of the clients",
        "",
        about,
        "",
        f"{machine()}; {versions}.",
        "",
        "| work | unit | against | theirs | ours | ratio | bar | met |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(comparison, rounds) for comparison in COMPARISONS if comparison.ours in rounds[0]),
    ]
    return "\n".join(lines) + "\n"


def _row(comparison: Comparison, rounds: list[Figures]) -> str:
    measure, ours_key, theirs_key, against = comparison
    ours = [figures[ours_key] for figures in rounds]
    theirs = [figures[theirs_key] for figures in rounds]
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    cells = (
        measure.title,
        measure.unit,
        against,
        spread(theirs),
        spread(ours),
        f"{spread(ratios)}x",
        f"{measure.better.value} {measure.bar:.3g}x",
        verdict(measure, ratios),
    )
    return f"| {' | '.join(cells)} |"
