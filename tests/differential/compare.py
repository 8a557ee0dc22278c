"""Telling two records of answers apart, field by field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

PROSE = {"error_message", "documentation", "batch_index_error_message"}
"""Fields for people to read: they are told apart for the reader of a run, not by the test."""

KAFKAS_WORDS = re.compile(r"topics-|configs-|produce-wrong_on_compacted")
"""Scenarios whose error messages people look for: there they must be Kafka's, where it has any."""


class Difference(NamedTuple):
    """One field that the brokers do not agree on."""

    label: str
    path: str
    kafka: Any
    moldau: Any

    @property
    def prose(self) -> bool:
        return self.path.rpartition(".")[2] in PROSE

    def __str__(self) -> str:
        return f"{self.label} | {self.path} | kafka: {self.kafka!r} | moldau: {self.moldau!r}"


class Accepted(NamedTuple):
    """Differences we know and want, and why. Patterns of labels and paths match at the start.

    A difference that no longer shows up is as much of a finding as a new one.
    """

    scenario: str
    label: str
    path: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        label = re.match(self.label, difference.label)
        return label is not None and re.match(self.path, difference.path) is not None


def differences(kafka: dict[str, Any], moldau: dict[str, Any]) -> list[Difference]:
    """Compare two records, question by question."""
    assert list(kafka) == list(moldau), "the scenario asked different questions"
    return [
        Difference(label, path, one, other)
        for label in kafka
        for path, one, other in _walk("", kafka[label], moldau[label])
    ]


def accepted_of(scenario: str, accepted: Iterable[Accepted]) -> list[Accepted]:
    """Return the entries of the list that are about a scenario."""
    return [one for one in accepted if re.fullmatch(one.scenario, scenario)]


def unexpected(
    scenario: str, found: Iterable[Difference], accepted: Iterable[Accepted]
) -> list[Difference]:
    """Return what is neither a matter of words nor on the list."""
    of_words = KAFKAS_WORDS.match(scenario) is None
    return [
        difference
        for difference in found
        if not (difference.prose and (of_words or not difference.kafka))
        and not any(one.covers(difference) for one in accepted)
    ]


def _walk(path: str, kafka: Any, moldau: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(kafka, dict) and isinstance(moldau, dict):
        for key in kafka.keys() | moldau.keys():
            at = f"{path}.{key}" if path else str(key)
            yield from _walk(at, kafka.get(key, "<absent>"), moldau.get(key, "<absent>"))
    elif isinstance(kafka, list) and isinstance(moldau, list) and len(kafka) == len(moldau):
        for number, (one, other) in enumerate(zip(kafka, moldau, strict=True)):
            yield from _walk(f"{path}[{number}]", one, other)
    elif kafka != moldau:
        yield path, kafka, moldau
