"""Which files are the table: one version after each batch and each merge.

    base      rows, each key once, with all columns there were when it was written
    changes   of each batch since: the last change of each of its keys, null for a delete

What is the case now: of each key the newest change, or else its row in the base. A batch costs what
it changes. Changes are merged so that reading does not come to cost more and more:

    into the base       when there are enough of them for that to be worth it, and at first
    among themselves    when there are too many files; of the newest ones as many as are of about
                        one size, so that a change is written again only when twice as many have
                        come after it

Pure: it knows neither Spark nor files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from moldau.base.errors import UserError
from moldau.spark.pipelines.changelog.fields import Fields, told_apart

FORM: Final = 2
FORM_BY_SPELLING: Final = 1
"""In which names that differ in case alone were columns of their own, all but one without values.
What its base holds is read from the text, until it is written anew."""

ROWS_MIN: Final = 10_000
"""Below so many changes a merge into the base costs more than reading them does."""
CHANGES_MAX: Final = 32
"""So many files are opened in no time; a thousand take a second."""


class Part(NamedTuple):
    """Rows of the table that were written at once."""

    names: tuple[str, ...] = ()
    """Their files, as paths below the table's folder."""
    rows: int = 0

    def told(self) -> list[Any]:
        """Return what is written down."""
        return [list(self.names), self.rows]


class Replaced(NamedTuple):
    """A file that no version from this one on has, kept for who still reads an older one."""

    name: str
    since_ms: int


class Totals(NamedTuple):
    """What became of all records so far."""

    changes: int = 0
    deletes: int = 0
    dead: int = 0

    def plus(self, other: Totals) -> Totals:
        """Add up."""
        return Totals(*(one + more for one, more in zip(self, other, strict=True)))


class Version(NamedTuple):
    """The table at one moment."""

    number: int = -1
    batch: int = -1
    """The last batch in it."""
    fields: Mapping[str, str] = {}
    base: Part = Part()
    base_fields: Mapping[str, str] = {}
    """The columns of the base's files and their types; the other columns are null there."""
    merges: int = 0
    """How often the base was written."""
    changes: tuple[Part, ...] = ()
    """The oldest first."""
    dead_appends: int = 0
    """How often dead letters were appended."""
    totals: Totals = Totals()
    replaced: tuple[Replaced, ...] = ()

    def names(self) -> set[str]:
        """Return all files that must not be removed."""
        parts = (self.base, *self.changes)
        held = {name for part in parts for name in part.names}
        return held | {one.name for one in self.replaced}

    def to_json(self) -> str:
        """Write it down."""
        told = {
            **self._asdict(),
            "base": self.base.told(),
            "changes": [part.told() for part in self.changes],
            "replaced": [list(one) for one in self.replaced],
            "totals": self.totals._asdict(),
        }
        return json.dumps({"form": FORM, **told}, indent=1)

    @classmethod
    def from_json(cls, text: str, place: str) -> Version:
        """Read what was written down at a place; UserError if it cannot be."""
        try:
            told: dict[str, Any] = json.loads(text)
            form = told.pop("form")
            if form not in (FORM, FORM_BY_SPELLING):
                raise UserError(
                    f"{place} has form {form}, and this Moldau reads {FORM}: use the one that wrote"
                    " it, or a newer one"
                )
            # Two that Spark does not tell apart were once let in; no query came through with them.
            told["fields"] = told_apart(told["fields"].items())
            if form == FORM_BY_SPELLING:
                told["base_fields"] = dict.fromkeys(told["base_fields"], "")
            told["base"] = _part(told["base"])
            told["changes"] = tuple(map(_part, told["changes"]))
            told["replaced"] = tuple(Replaced(*one) for one in told["replaced"])
            told["totals"] = Totals(**told["totals"])
            return cls(**told)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise UserError(
                f"{place} cannot be read: put a copy back, or begin with a new --out"
            ) from None


def _part(told: Sequence[Any]) -> Part:
    names, rows = told
    return Part(tuple(names), rows)


def with_batch(version: Version, fields: Fields, part: Part | None, totals: Totals) -> Version:
    """Return the version after a batch has added these changes."""
    return version._replace(
        number=version.number + 1,
        batch=version.batch + 1,
        fields=fields,
        changes=version.changes if part is None else (*version.changes, part),
        dead_appends=version.dead_appends + (totals.dead > 0),
        totals=version.totals.plus(totals),
    )


class Merge(NamedTuple):
    """Changes that are to be merged."""

    changes: tuple[Part, ...]
    """The newest ones."""
    into_base: bool
    """All of them, then."""


def due(version: Version, ratio: float) -> Merge | None:
    """Return what is to be merged now.

    `ratio` is the share of the base's rows that changes must come up to.
    """
    rows = sum(part.rows for part in version.changes)
    is_crowded = len(version.changes) > CHANGES_MAX
    is_worth_it = is_crowded or rows >= ROWS_MIN or not version.base.names
    if version.changes and is_worth_it and rows >= ratio * version.base.rows:
        return Merge(version.changes, into_base=True)
    return Merge(_of_one_size(version.changes), into_base=False) if is_crowded else None


def _of_one_size(changes: Sequence[Part]) -> tuple[Part, ...]:
    """Return the newest changes, back to the first that are more than all after them together.

    There are two of them at least.
    """
    taken = 2
    rows = sum(part.rows for part in changes[-taken:])
    while taken < len(changes) and changes[-taken - 1].rows <= rows:
        taken += 1
        rows += changes[-taken].rows
    return tuple(changes[-taken:])


def merged(version: Version, merge: Merge, part: Part, now_ms: int) -> Version:
    """Return the version after a merge has written this."""
    kept = version.changes[: -len(merge.changes)]
    gone = [name for one in merge.changes for name in one.names]
    after = version._replace(number=version.number + 1, changes=(*kept, part))
    if merge.into_base:
        gone += version.base.names
        after = after._replace(
            base=part, base_fields=version.fields, merges=version.merges + 1, changes=kept
        )
    replaced = tuple(Replaced(name, now_ms) for name in gone)
    return after._replace(replaced=(*version.replaced, *replaced))


def without_old(version: Version, before_ms: int) -> tuple[Version, list[str]]:
    """Return a version without what was replaced long ago, and the files that can be removed."""
    old = [one.name for one in version.replaced if one.since_ms < before_ms]
    kept = tuple(one for one in version.replaced if one.since_ms >= before_ms)
    return version._replace(replaced=kept), old


def newest(names: Sequence[str]) -> int | None:
    """Return the number of the newest version among the names in their folder."""
    return max((int(name) for name in names if name.isdecimal()), default=None)


def widened_names(version: Version) -> Mapping[str, str]:
    """Return the columns that stand in the base with another type than they have now."""
    return {
        name: kind
        for name, kind in version.fields.items()
        if name in version.base_fields and version.base_fields[name] != kind
    }
