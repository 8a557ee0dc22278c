"""The results of a call for several resources: a result or an error for each.

A broker answers for every resource separately, so a call can succeed in part. `Tally` collects the
answers over several rounds, and `Results` is the outcome.

Pure: `asking` decides about retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from moldau.engine.broker_errors import RequestTimedOut
from moldau.engine.errors import ClientError, ConnectionLost, CorruptAnswer

K = TypeVar("K")
V = TypeVar("V")


class Results(Generic[K, V]):
    """The result or error of each item; `results[item]` returns the result or raises the error."""

    __slots__ = ("errors", "ok")

    def __init__(self, ok: Mapping[K, V], errors: Mapping[K, ClientError]) -> None:
        self.ok = dict(ok)
        """The results of the items that succeeded."""
        self.errors = dict(errors)
        """The errors of the items that failed."""

    def __getitem__(self, item: K) -> V:
        """Return an item's result or raise its error; KeyError for an unknown item."""
        error = self.errors.get(item)
        if error is not None:
            raise error
        return self.ok[item]

    def or_raise(self) -> dict[K, V]:
        """Return all results, or raise the first error if there is one."""
        for error in self.errors.values():
            raise error
        return self.ok

    def __iter__(self) -> Iterator[K]:
        yield from self.ok
        yield from self.errors

    def __contains__(self, item: object) -> bool:
        return item in self.ok or item in self.errors

    def __len__(self) -> int:
        return len(self.ok) + len(self.errors)

    def __repr__(self) -> str:
        return f"Results(ok={self.ok!r}, errors={self.errors!r})"


class Tally(Generic[K, V]):
    """Results in the making: what is settled, and what still waits for a better round."""

    def __init__(self, items: Iterable[K]) -> None:
        self._order = list(dict.fromkeys(items))
        self._ok: dict[K, V] = {}
        self._errors: dict[K, ClientError] = {}
        self.waiting: dict[K, ClientError | None] = dict.fromkeys(self._order)
        """What is to be asked for, with what went wrong in this round."""
        self.uncertain: set[K] = set()
        """Items for which an answer was lost: an earlier round may have taken effect."""

    def begin_round(self) -> None:
        """Forget what went wrong in the round before."""
        self.waiting = dict.fromkeys(self.waiting)

    def end_round(self) -> None:
        """Refuse what no answer spoke of, and raise what is left to be tried again."""
        for item in [item for item, error in self.waiting.items() if error is None]:
            self.refuse(item, CorruptAnswer(f"the answer leaves {item!r} out"))
        for error in self.waiting.values():
            if error is not None:
                raise error

    def done(self, item: K, result: V) -> None:
        """Settle an item. What was not asked for, or is settled, is left alone."""
        if item in self.waiting:
            del self.waiting[item]
            self._ok[item] = result

    def refuse(self, item: K, error: ClientError) -> None:
        """Settle an item that failed for good."""
        if item in self.waiting:
            del self.waiting[item]
            self._errors[item] = error

    def fail(self, item: K, error: ClientError) -> None:
        """Take down a failure: for good, or to be tried again if that can help."""
        if not error.retriable:
            self.refuse(item, error)
        elif item in self.waiting:
            self.waiting[item] = error
            if isinstance(error, (ConnectionLost, RequestTimedOut)):
                self.uncertain.add(item)

    def give_up(self, error: ClientError) -> None:
        """Refuse all that waits: with what went wrong last, or with this."""
        for item, last in list(self.waiting.items()):
            self.refuse(item, last or error)

    def results(self) -> Results[K, V]:
        """Return what was settled, in the order in which it was asked for."""
        return Results(
            {item: self._ok[item] for item in self._order if item in self._ok},
            {item: self._errors[item] for item in self._order if item in self._errors},
        )
