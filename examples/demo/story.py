"""The order of things: who starts when, how long it lasts, and who ends before whom.

First the broker, then what fills its topics, then the pipelines. At the end what fills the topics
ends first, and the pipelines read the rest, so that all of it can be counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from examples.demo.accounts import Account, number_told
from examples.demo.cast import Cast, Pipeline, Source
from examples.demo.ending import Ending
from examples.demo.figures import Snapshot
from examples.demo.looking import Observer
from examples.demo.parts import Part, Parts
from examples.demo.view import View, clock

from moldau import ClientError

LOOK_S: Final = 1.0
STANDSTILL_S: Final = 180.0
"""Pipelines read what is left in seconds. On a machine that others use, too, it takes what it
takes, as long as it goes on."""


class Story:
    """One run of the demonstration."""

    def __init__(
        self,
        cast: Cast,
        pipelines: Sequence[Pipeline],
        parts: Parts,
        observer: Observer,
        ending: Ending,
    ) -> None:
        self._cast = cast
        self._pipelines = pipelines
        self._parts = parts
        self._observer = observer
        self._ending = ending
        self._sources: list[tuple[Source, Part]] = []

    def play(self, view: View, seconds: float | None) -> Snapshot:
        """Tell it from the first record to the last; return how everything stands then."""
        self._fill_topics()
        spark = self._parts.start("spark", self._cast.spark(self._pipelines))
        until = "until Ctrl-C" if seconds is None else f"until {clock(seconds)} or Ctrl-C"
        self._show_while(
            lambda now: seconds is None or now.elapsed_s < seconds,
            view,
            f"{until}; the broker is at {self._cast.address}",
        )
        self._show(view, "what fills the topics ends")
        for _, part in self._sources:  # one after the other: some read what others write
            self._parts.end([part])
        self._read_the_rest(view)
        self._show(view, "pipelines end after their running batches")
        self._parts.end([spark])
        return self._look()

    def accounts(self, last: Snapshot) -> list[Account]:
        """Draw up what became of all records, topic by topic."""
        records = {one.name: one.records for one in last.topics}
        found = {one.name: one for one in last.pipelines}
        filed = {
            one.topic: {table: found[one.name].rows[table] for table in one.filed}
            or found[one.name].totals
            for one in self._pipelines
        }
        return [
            Account(
                source.topic,
                number_told(part.said(), source.tells),
                records[source.topic],
                filed.get(source.topic),
            )
            for source, part in self._sources
        ]

    def _fill_topics(self) -> None:
        self._sources = [
            (source, self._parts.start(source.name, source.command))
            for source in self._cast.sources()
        ]

    def _read_the_rest(self, view: View) -> None:
        """Wait until the pipelines have read all there is, or do not go on."""
        lags, since_s = [-1], 0.0

        def goes_on(now: Snapshot) -> bool:
            nonlocal lags, since_s
            if lags != [one.lag for one in now.pipelines]:
                lags, since_s = [one.lag for one in now.pipelines], now.elapsed_s
            return any(lags) and now.elapsed_s < since_s + STANDSTILL_S

        self._show_while(goes_on, view, "nothing more is sent; pipelines read the rest")

    def _show_while(self, goes_on: Callable[[Snapshot], bool], view: View, note: str) -> None:
        """Show how everything stands, again and again, unless it shall end."""
        while not self._ending.is_asked_for and goes_on(self._show(view, note)):
            self._ending.wait(LOOK_S)

    def _show(self, view: View, note: str) -> Snapshot:
        now = self._look()
        view.show(now, note)
        return now

    def _look(self) -> Snapshot:
        """Look at everything; a part that has ended is what is wrong, where something is."""
        self._parts.check()
        try:
            return self._observer.look()
        except ClientError:
            self._parts.check()
            raise
