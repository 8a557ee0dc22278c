"""The coordinator runtime: the shards of one internal topic that this broker leads.

A key (a group, a transactional id) belongs to one partition of the topic, and the broker that leads
this partition coordinates the key. The runtime finds the shard of a key and calls a handler on it:

    runtime.call(
        request.group_id,
        lambda shard, ticket, now: shard.heartbeat(request, caller, ticket, now),
        lambda code: HeartbeatResponse(error_code=code),
    )

The answer is the response, or a future of it. Neither the call nor the future ever raises. The
second function makes the response for errors of the coordinator itself: NOT_COORDINATOR (this
broker does not lead the partition, or no longer does), COORDINATOR_LOAD_IN_PROGRESS,
COORDINATOR_NOT_AVAILABLE.

The life of a shard:

    lead --> COORDINATOR_LOAD_IN_PROGRESS --log replayed--> serving --resign--> NOT_COORDINATOR
                   ^        |                                  |
                   |        +--disk error--> NOT_AVAILABLE     |  (until another leader epoch)
                   +------------ backoff ----------------------+  broken state

An exception in the handler of a request fails that request alone, with INVALID_REQUEST. If the
state of a shard is broken, a new shard is loaded from the log after a backoff. A shard whose
partition the disk cannot read is not available until the partition is led in another epoch. Damaged
records do not stop a load: they are skipped.

There is one runtime for groups and one for transactions. The runtime does not know which it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, Generic, NamedTuple, TypeVar

from moldau.base.checks import invariant
from moldau.base.clock import Clock
from moldau.base.errors import InvariantViolated, StorageError
from moldau.coordination.answers import Answer, Failed
from moldau.coordination.backoff import backoff_s
from moldau.coordination.bugs import BugLog
from moldau.coordination.hashing import partition_of
from moldau.coordination.host import Host, HostSettings
from moldau.coordination.internal_log import InternalLog
from moldau.coordination.loading import Loader
from moldau.coordination.outcome import Now, Outcome, ProducerIdentity, Shard, Ticket
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.compression import Codec

logger = logging.getLogger(__name__)

A = TypeVar("A")
R = TypeVar("R")
S = TypeVar("S", bound=Shard)

LOAD_BUFFER_BYTES: Final = 5 * 1024 * 1024
"""Kafka's default for both topics."""

COMMIT_TIMEOUT_S: Final = 5.0
"""How long a reply waits for a commit; Kafka's default of `offsets.commit.timeout.ms`."""

RELOAD_FIRST_S: Final = 1.0
RELOAD_MAX_S: Final = 60.0
"""The first and the longest wait before a failed shard is loaded again."""

FAILURES_FORGOTTEN_S: Final = 600.0
"""After this time without a failure the backoff of a shard starts at `RELOAD_FIRST_S` again."""

LOADS_AT_ONCE: Final = 2
"""One shard is replayed while another one waits for the disk. More loads only take memory."""


class _Failures(NamedTuple):
    """How often a shard has failed, and when it failed last, on the monotonic clock."""

    times: int
    last_s: float


class LoadTimes:
    """How long shards took to load, and how many records they skipped, for the metrics."""

    __slots__ = ("count", "max_s", "skipped_records", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.skipped_records = 0
        """Records that could not be read, over all loads."""
        self.total_s = 0.0
        self.max_s = 0.0

    def add(self, elapsed_s: float) -> None:
        """Count a load that succeeded."""
        self.count += 1
        self.total_s += elapsed_s
        self.max_s = max(self.max_s, elapsed_s)


def no_effects(effect: object) -> None:
    """The default of `perform`, for shards that have no effects."""
    raise InvariantViolated(f"nobody carries out {effect!r}")


async def nothing_under_way() -> None:
    """The default of `settled`, for shards whose effects end where they are carried out."""


class Runtime(Generic[S]):
    """Every shard of one internal topic on this broker. Call it on the event loop's thread only."""

    def __init__(
        self,
        topic: str,
        partition_count: int,
        make_shard: Callable[[int, int], S],
        clock: Clock,
        *,
        perform: Callable[[object], None] = no_effects,
        settled: Callable[[], Awaitable[None]] = nothing_under_way,
        codec: Codec = Codec.NONE,
        commit_timeout_s: float = COMMIT_TIMEOUT_S,
        load_buffer_bytes: int = LOAD_BUFFER_BYTES,
    ) -> None:
        """Start without shards; `make_shard` takes the index and leader epoch of a partition.

        `settled` returns when no effect is under way that was handed to `perform` before.
        """
        self.topic = topic
        self.partition_count = partition_count
        """The divisor of the key's hash. The broker sets it when it leads its first partition."""
        self._make_shard = make_shard
        self._settled = settled
        self.bugs = BugLog()
        self._settings = HostSettings(
            topic, clock, perform, codec, commit_timeout_s, self._load_again, self.bugs
        )
        self._load_buffer_bytes = load_buffer_bytes
        self.load_times = LoadTimes()
        self._hosts: dict[int, Host[S]] = {}
        self._loads: dict[int, asyncio.Task[None]] = {}
        self._failures: dict[int, _Failures] = {}
        self._turns = asyncio.Semaphore(LOADS_AT_ONCE)

    # Requests and events

    def partition_for(self, key: str) -> int:
        """Return the partition of the topic that a key belongs to."""
        return partition_of(key, self.partition_count)

    def call(
        self,
        key: str,
        handler: Callable[[S, Ticket, Now], Outcome],
        failed: Failed[R],
    ) -> Answer[R]:
        """Call a handler on the shard of a key; return the response, or a future of it."""
        host = self.host_for(key)
        if host is None:
            return failed(ErrorCode.NOT_COORDINATOR)
        return host.call(handler, failed)

    def host_for(self, key: str) -> Host[S] | None:
        """Return the host of a key's shard, for the fast path of frequent requests.

        The caller may keep it: a host that has ended refuses every request (`Host.write_at_once`).
        """
        return self._hosts.get(self.partition_for(key))

    def read_at_once(self, key: str, decide: Callable[[S, A], R | None], asked: A) -> R | None:
        """Answer a request that only reads committed state (`Host.read_at_once`).

        Returns None, with nothing done, if the request needs `call`.
        """
        host = self.host_for(key)
        return None if host is None else host.read_at_once(decide, asked)

    async def call_all(
        self, handler: Callable[[S, Ticket, Now], Outcome], failed: Failed[R]
    ) -> list[R]:
        """Call a handler on every shard here, in the order of their partitions.

        Each shard gets its own turn of the event loop: such requests (ListGroups) go through
        everything that a shard holds.
        """
        answers: list[Answer[R]] = []
        for _, host in sorted(self._hosts.items()):
            answers.append(host.call(handler, failed))
            await asyncio.sleep(0)
        return [await one if isinstance(one, asyncio.Future) else one for one in answers]

    def tell(self, key: str, handler: Callable[[S, Now], Outcome]) -> None:
        """Call a handler on the shard of a key for an event that needs no answer.

        A shard that is still loading gets the event after the load. Without a shard here the event
        is dropped: the next leader of the partition finds the unfinished work in the log.
        """
        host = self.host_for(key)
        if host is not None:
            host.tell(handler)

    def tell_all(self, handler: Callable[[S, Now], Outcome]) -> None:
        """Call a handler on every shard here, as `tell` does."""
        for _, host in sorted(self._hosts.items()):
            host.tell(handler)

    def transaction_ended(self, index: int, producer: ProducerIdentity, *, committed: bool) -> None:
        """Pass on a transaction marker that was just appended to a partition of the topic."""
        host = self._hosts.get(index)
        if host is not None:
            host.transaction_ended(producer, committed=committed)

    # Following the partitions

    def holds(self, index: int) -> bool:
        """Tell whether a shard of this partition serves or loads here."""
        host = self._hosts.get(index)
        return host is not None and host.refusal is not ErrorCode.COORDINATOR_NOT_AVAILABLE

    @property
    def led(self) -> tuple[int, ...]:
        """The partitions that this broker leads, also those whose shards are not available."""
        return tuple(self._hosts)

    @property
    def shards(self) -> tuple[S, ...]:
        """The shards that serve. Another thread may read this."""
        hosts = tuple(self._hosts.values())
        return tuple(host.shard for host in hosts if host.refusal is ErrorCode.NONE)

    @property
    def refusals(self) -> tuple[ErrorCode, ...]:
        """The error that clients of each led partition get now. Another thread may read this."""
        return tuple(host.refusal for host in tuple(self._hosts.values()))

    def leader_epoch(self, index: int) -> int | None:
        """Return the leader epoch for which a shard was made; None if there is no shard here."""
        host = self._hosts.get(index)
        return None if host is None else host.log.leader_epoch

    def lead(self, log: InternalLog) -> None:
        """Load the shard of a partition that this broker leads now, then serve it."""
        index = log.index
        # The epoch is compared, not only "do we lead": another broker may have led, and written,
        # between two of our leaderships. In a new epoch the state is loaded again from the log.
        if self.leader_epoch(index) == log.leader_epoch:
            return
        # The old host ends before the new one exists. So no answer, timer or effect of the old
        # epoch can come out between the two.
        self.resign(index)
        host = self._add_host(log)
        if log.log_start_offset == log.log_end_offset:
            self._begin(host)
        else:
            self._begin_load(host, self._load(host))

    def _load_again(self, log: InternalLog) -> None:
        """Replace a shard that failed, and load the new one after a backoff.

        The host calls this when it has ended. The log keeps its leader epoch: this broker still
        leads, and only the state in memory was wrong.
        """
        index, now_s = log.index, self._settings.clock.monotonic()
        times, last_s = self._failures.get(index, _Failures(0, now_s))
        times = 1 if now_s - last_s >= FAILURES_FORGOTTEN_S else times + 1
        self._failures[index] = _Failures(times, now_s)
        after_s = backoff_s(times, RELOAD_FIRST_S, RELOAD_MAX_S)
        host = self._add_host(log)
        logger.warning("%s is loaded anew in %.0f s", host, after_s)
        self._begin_load(host, self._load_later(host, after_s))

    def _add_host(self, log: InternalLog) -> Host[S]:
        # Two live hosts would append to one partition, each without the other's records in its
        # state.
        invariant(not self.holds(log.index), f"{self.topic}-{log.index} has a shard already")
        shard = self._make_shard(log.index, log.leader_epoch)
        host = self._hosts[log.index] = Host(log, shard, self._settings)
        return host

    def _begin_load(self, host: Host[S], work: Coroutine[None, None, None]) -> None:
        index = host.log.index
        load = asyncio.get_running_loop().create_task(work, name=f"load {host}")
        self._loads[index] = load
        load.add_done_callback(lambda done: self._load_ended(index, done))

    def _load_ended(self, index: int, load: asyncio.Task[None]) -> None:
        if self._loads.get(index) is load:
            del self._loads[index]

    def resign(self, index: int) -> None:
        """Drop a shard: its partition has another leader, is deleted, or its disk has failed."""
        # The load is cancelled first: it would let a host serve that has ended.
        load = self._loads.pop(index, None)
        if load is not None:
            load.cancel()
        self._failures.pop(index, None)
        host = self._hosts.pop(index, None)
        if host is not None:
            host.end(ErrorCode.NOT_COORDINATOR)

    async def close(self) -> None:
        """Resign all partitions and wait until their loads have ended; for a broker that stops."""
        loads = tuple(self._loads.values())
        for index in tuple(self._hosts):
            self.resign(index)
        await asyncio.gather(*loads, return_exceptions=True)

    async def _load_later(self, host: Host[S], after_s: float) -> None:
        """Load a shard again in its leader epoch, after a backoff.

        Effects of the shard that failed are waited for. The new shard repeats them, and nobody
        could tell one that arrives late from its own: both have the same epoch.
        """
        await asyncio.sleep(after_s)
        await self._settled()
        await self._load(host)

    async def _load(self, host: Host[S]) -> None:
        """Load a shard and let it serve.

        If that fails, the shard is not available until its partition is led in another epoch.
        `resign` cancels this.
        """
        async with self._turns:
            clock = self._settings.clock
            start_s = clock.monotonic()
            loader = Loader(host.log, host.shard, str(host), self.bugs)
            try:
                await loader.run(self._load_buffer_bytes)
            except (ApiError, StorageError) as error:
                logger.error("%s cannot be loaded: %s", host, error)  # noqa: TRY400 - no bug of ours
                host.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            except Exception:
                logger.exception("%s cannot be loaded", host)
                host.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                elapsed_s = clock.monotonic() - start_s
                self.load_times.add(elapsed_s)
                self.load_times.skipped_records += loader.skipped_count
                logger.info(
                    "%s is loaded: %d records in %.0f ms",
                    host, loader.record_count, elapsed_s * 1000,
                )  # fmt: skip
                self._begin(host)

    def _begin(self, host: Host[S]) -> None:
        """Let a shard serve. A shard that fails here is not available; the others go on."""
        try:
            host.begin()
        except Exception:
            logger.exception("%s cannot begin to serve", host)
            host.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)
