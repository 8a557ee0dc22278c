"""Spark's checkpoints: whether they can be read, and whether they are those of the tables.

Of a damaged one Spark says only what it stumbled over (`Unrecognized token`), and not where. So it
is looked at before Spark tries: the newest entries, which are what a query goes on from.

Of an older copy Spark says nothing. It plans the batches after it anew, with what there is to read
by then, under numbers that the tables have already. Tables that went by numbers alone would take
such a batch for done, and leave out what it holds more. So it is kept beside them which batch was
begun last and where it ends, as Spark has written that down, and they go on from no other.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from moldau.base.errors import UserError
from moldau.spark.pipelines.storage import Files

OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
LOGS: Final = (OFFSETS, COMMITS)
METADATA: Final = "metadata"
"""The file with the id of the query."""
_NOTHING: Final = "-"
"""Stands for an offset that is not known yet."""
_LINES_BEFORE: Final = 2
"""What an entry has before its offsets: its form, and settings with the time of planning."""


class _Begun(NamedTuple):
    """A batch that tables have, or have part of."""

    number: int
    end: str | None
    """What its checkpoint says; None if there is none, where somebody brings batches himself."""


class Ledger:
    """Keeps which batch of a query was begun last, in one small file."""

    def __init__(self, files: Files, place: str, checkpoint: str) -> None:
        self._files = files
        self._place = place
        self._checkpoint = checkpoint
        self._last: _Begun | None = None

    def last(self) -> int:
        """Return the batch that was begun last; -1 without any."""
        if self._last is None:
            self._last = self._kept()
        return self._last.number

    def begin(self, number: int) -> None:
        """Note that a batch is begun; call it before anything of the batch is filed.

        UserError if another batch was begun under its number, or a later one, or if the one before
        it was another.
        """
        last = self.last()
        if number < last:
            raise self._older(f"has batches up to {last}, and is to get {number}")
        if number > last:
            begun = _Begun(number, self._end(number))
            self._files.write(self._place, json.dumps(begun._asdict(), indent=1))
            self._last = begun

    def _kept(self) -> _Begun:
        """Read what was begun last, and compare it with the checkpoint."""
        text = self._files.read(self._place)
        if text is None:
            return _Begun(-1, None)
        try:
            kept = _Begun(**json.loads(text))
        except (TypeError, ValueError):
            raise UserError(
                f"{self._place} cannot be read: it says which batch was begun last; restore it, or"
                " begin with a new --out"
            ) from None
        found = self._end(kept.number)
        if kept.end is not None and found is not None and found != kept.end:
            raise self._older(f"has another batch {kept.number}")
        return kept

    def _end(self, number: int) -> str | None:
        """Return where a batch ends; Spark writes it before it runs it, and does not change it."""
        text = self._files.read(f"{self._checkpoint}/{OFFSETS}/{number}")
        return None if text is None else "\n".join(text.split("\n")[_LINES_BEFORE:])

    def _older(self, found: str) -> UserError:
        return UserError(
            f"{self._place} {found}: the checkpoint is an older copy, which would leave records"
            " out; begin anew with another --out"
        )


def check_checkpoint(files: Files, folder: str) -> None:
    """Look at the checkpoint of a query; UserError if it is damaged."""
    newest: dict[str, int] = {}
    for log in LOGS:
        numbers = [int(name) for name in files.names(f"{folder}/{log}") if name.isdecimal()]
        if numbers:
            newest[log] = max(numbers)
            place = f"{folder}/{log}/{newest[log]}"
            _check(files.read(place) or "", place)
    if newest.get(COMMITS, -1) > newest.get(OFFSETS, -1):
        raise _damaged(f"{folder}/{OFFSETS}/{newest[COMMITS]}", "is missing")
    _check_id(files.read(f"{folder}/{METADATA}"), f"{folder}/{METADATA}", is_new=not newest)


def _check(text: str, place: str) -> None:
    head, *lines = text.split("\n")
    try:
        if not head.startswith("v") or not lines:
            raise ValueError(f"it begins with {head[:20]!r}")
        for line in lines:
            if line and line != _NOTHING:
                json.loads(line)
    except ValueError as error:
        raise _damaged(place, f"cannot be read ({error})") from None


def _check_id(text: str | None, place: str, *, is_new: bool) -> None:
    if text is None:
        if not is_new:
            raise _damaged(place, "is missing")
        return
    try:
        json.loads(text)
    except ValueError as error:
        raise _damaged(place, f"cannot be read ({error})") from None


def _damaged(place: str, what: str) -> UserError:
    return UserError(
        f"the checkpoint is damaged: {place} {what}; restore it, or begin with a new --out"
    )
