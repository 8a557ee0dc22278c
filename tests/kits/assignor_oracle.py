"""Kafka's own assignors as an oracle: a case as one line for a Java program, and its answer.

Members go into a hash map there, as in Kafka's consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka_harness.distribution import CURRENT, OLDEST
from kafka_harness.java import run_source
from moldau.client.assignors.interface import Assignments, Subscription
from moldau.client.records import TopicPartition

_SOURCES = Path(__file__).parents[1] / "java"
Sets = dict[str, set[str]]


@dataclass(frozen=True)
class Case:
    """One division of partitions to work out."""

    assignor: str
    topics: Mapping[str, list[frozenset[str]]]
    subscriptions: dict[str, Subscription]

    def line(self) -> str:
        """Write the case as the Java side reads it."""
        topics = ";".join(
            f"{topic}:{','.join('+'.join(sorted(racks)) for racks in partitions)}"
            for topic, partitions in self.topics.items()
        )
        return "\t".join((self.assignor, topics, *map(_member, self.subscriptions.items())))


def _member(item: tuple[str, Subscription]) -> str:
    member, said = item
    user_data = "-" if said.user_data is None else said.user_data.hex()
    owned = ",".join(map(str, said.owned_partitions))
    return ";".join((
        member, said.instance_id or "", said.rack or "", ",".join(said.topics),
        str(said.generation), owned, user_data,
    ))  # fmt: skip


def java_assignments(cases: Iterable[Case]) -> list[Sets | str]:
    """Return what Kafka 4.3 gives for each case; a text beginning with `!` where it raised."""
    return list(map(_parsed, _answers(CURRENT, "AssignorOracle.java", cases)))


def first_java_assignments(cases: Iterable[Case]) -> list[Sets | str]:
    """Return what the sticky assignor of Kafka 1.1 gives for each case."""
    return list(map(_parsed, _answers(OLDEST, "FirstStickyOracle.java", cases)))


def java_bytes(cases: Iterable[Case]) -> list[bytes]:
    """Return the bytes that each case asks for in place of an assignor."""
    return list(map(bytes.fromhex, _answers(CURRENT, "AssignorOracle.java", cases)))


def _answers(version: str, source: str, cases: Iterable[Case]) -> list[str]:
    lines = "".join(case.line() + "\n" for case in cases)
    return run_source(version, _SOURCES / source, stdin=lines, timeout_s=50).lines


def _parsed(line: str) -> Sets | str:
    if line.startswith("!"):
        return line
    members = (part.partition("=") for part in line.split(";") if part)
    return {member: {name for name in names.split(",") if name} for member, _, names in members}


def as_sets(assignments: Assignments) -> Sets:
    """Return assignments in the form of the oracle's; a partition given twice is an error."""
    for member, assignment in assignments.items():
        assert len(set(assignment.partitions)) == len(assignment.partitions), member
    return {
        member: {str(TopicPartition(*partition)) for partition in assignment.partitions}
        for member, assignment in assignments.items()
    }
