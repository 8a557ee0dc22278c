"""What a worker process of Spark keeps from one task, or one batch, to the next.

Spark runs many tasks in one Python process, and unpickles what they need anew each time; only an
importable module stays. A producer that stays has its connections, its metadata and its producer
id, which would otherwise cost each task a few round trips. Nothing is made before a task asks for
it, so nothing is there when Spark's daemon forks its workers.

Owned by the thread that runs tasks: a process runs one at a time.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

from moldau.base.errors import UserError
from moldau.client.batch_producer import BatchProducer
from moldau.client.errors import ClientError
from moldau.spark.errors import WriteInterrupted
from moldau.spark.sink.options import SinkOptions


class Closable(Protocol):
    """What can be kept."""

    def give_up(self) -> None:
        """End it at once; what it had not finished is lost."""
        ...


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Closable)


class Kept(Generic[K, V]):
    """The few things used last; the one that was not used for longest makes room."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._things: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return what is kept under a key."""
        if key in self._things:
            self._things.move_to_end(key)
        return self._things.get(key)

    def put(self, key: K, thing: V) -> V:
        """Keep something; what has to make room for it is ended."""
        self._things[key] = thing
        if len(self._things) > self._count_max:
            self._things.popitem(last=False)[1].give_up()
        return thing

    def drop(self, key: K) -> None:
        """End what is kept under a key, if anything is."""
        thing = self._things.pop(key, None)
        if thing is not None:
            thing.give_up()


_PRODUCERS_MAX: Final = 4
"""A process serves few queries at a time."""

_producers: Final[Kept[tuple[tuple[str, Any], ...], BatchProducer]] = Kept(_PRODUCERS_MAX)


@contextlib.contextmanager
def producer_for(options: SinkOptions) -> Iterator[BatchProducer]:
    """Lend a producer; it is kept unless the block fails, and then what it still has is dropped."""
    settings = options.producer()
    key = tuple(sorted(settings.items()))
    producer = _producers.get(key) or _producers.put(key, BatchProducer(**settings))
    try:
        with told(f"rows could not be written to {options.connection.servers}"):
            yield producer
    except BaseException:
        _producers.drop(key)
        raise


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Have a failure of the client read as one line: what could not be done, why, what to do.

    WriteInterrupted where the same may succeed later, else UserError.
    """
    try:
        yield
    except ClientError as error:
        kind = WriteInterrupted if error.retriable else UserError
        raise kind(f"{what}: {error}") from error
