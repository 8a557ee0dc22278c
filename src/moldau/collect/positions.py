"""The file of positions as collectors use it: what goes wrong with it is said, and they go on."""

from __future__ import annotations

import asyncio
from typing import Final

from moldau.collect.complaints import Complaints
from moldau.collect.state import CorruptState, Entry, StateFile

STATE: Final = "state"
"""What complaints about the file of positions are kept under; it is no path."""


class Positions:
    """A file of positions, and who is told about it. Owned by the collector's loop."""

    def __init__(self, state: StateFile, complaints: Complaints) -> None:
        self._state = state
        self._complaints = complaints

    def load(self) -> list[Entry] | None:
        """Return what was written, None at the very first start, nothing of a damaged file."""
        try:
            return self._state.load()
        except CorruptState as error:
            self._complaints.say(
                STATE,
                f"{self._state.path} is damaged ({error}): it was put aside, and all files are read"
                " from their beginnings",
            )
            return []

    async def save(self, entries: list[Entry]) -> None:
        """Write positions in a thread: a disk takes its time. Cancelled, it is finished first."""
        saving = asyncio.ensure_future(asyncio.to_thread(self._state.save, entries))
        try:
            await asyncio.wait([saving])
        finally:
            # Not shielded: from Python 3.14 on a shield prints what fails after a cancellation.
            await asyncio.wait([saving])
            self._take_note(saving)

    def _take_note(self, saved: asyncio.Future[None]) -> None:
        try:
            saved.result()
        except OSError as error:
            self._complaints.say(
                STATE, f"cannot write {self._state.path}: {error.strerror or error}"
            )
        else:
            self._complaints.withdraw(STATE)
