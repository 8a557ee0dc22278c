"""What may be asked about the table `logs`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Question:
    """Which rows are wanted; all conditions hold for a row that is."""

    since_us: int | None = None
    until_us: int | None = None
    """Exclusive."""
    levels: frozenset[str] | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    """By column, of those that are searched by value (`layout.PAIR_COLUMNS`)."""
    texts: tuple[str, ...] = ()
    """Each is part of the message or of the stack."""
    expressions: tuple[str, ...] = ()
    """Regular expressions as RE2 has them; each matches part of the message or of the stack."""
    without: tuple[str, ...] = ()
    """None is part of the message or of the stack."""
    ignore_case: bool = False
    """Of texts, expressions and what is to be without."""
    fields: Mapping[str, str] = field(default_factory=dict)
    after_batch: int | None = None
    limit: int = 100
