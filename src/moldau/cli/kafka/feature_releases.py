"""What Kafka 4.3 calls the levels of metadata.version, and what levels a release begins with."""

from __future__ import annotations

from typing import Final

from moldau.cli.kafka.running import CommandFailed

METADATA_VERSION: Final = "metadata.version"
FIRST_LEVEL: Final = 7
RELEASES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0",
    "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
)  # fmt: skip
"""The levels of metadata.version by name, from the first that it knows."""

_BEGUN_AT: Final = {
    "kraft.version": (1, 21),
    "transaction.version": (2, 24),
    "group.version": (1, 22),
    "eligible.leader.replicas.version": (1, 26),
    "share.version": (1, 28),
    "streams.version": (1, 29),
}
"""The level that a feature has by default, and the level of metadata.version that begins it."""


def level_name(feature: str, level: int) -> str:
    """Return how a level is printed."""
    if feature != METADATA_VERSION:
        return str(level)
    place = level - FIRST_LEVEL
    return RELEASES[place] if 0 <= place < len(RELEASES) else f"UNKNOWN {level}"


def metadata_level_of(release: str) -> int:
    """Return the level of metadata.version that a name such as 3.9-IV0, 3.9 or 3.9.1 means."""
    short = ".".join(release.split(".")[:2])
    for place in reversed(range(len(RELEASES))):
        if short in (RELEASES[place], RELEASES[place].partition("-")[0]):
            return FIRST_LEVEL + place
    raise CommandFailed(
        f"Unknown metadata.version '{release}'. Supported metadata.version are:"
        f" {', '.join(RELEASES)}"
    )


def levels_of_release(level: int) -> dict[str, int]:
    """Return the levels of all features that a cluster formatted at this level has."""
    features = {
        name: newest if level >= begun_at else 0 for name, (newest, begun_at) in _BEGUN_AT.items()
    }
    return {METADATA_VERSION: level, **features}
