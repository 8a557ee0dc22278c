"""How brokers and clients speak of a setting that Kafka has removed."""

from __future__ import annotations

from typing import NamedTuple


class Removed(NamedTuple):
    """What became of a setting of an earlier Kafka."""

    release: str
    """The first release without it."""
    instead: str = ""
    """What to use now: the name of a setting, or a few words; nothing if there is nothing."""


def removal(name: str, removed: Removed) -> str:
    """Say in one line that a setting is gone, since when, and what took its place."""
    instead = f"use {removed.instead}" if removed.instead else "nothing takes its place"
    return f"{name} was removed in Kafka {removed.release}; {instead}"
