"""The records of a range of offsets, from whoever has them: the leader, or a replica it names.

A range was planned because its offsets were there. So what stands in the way is waited for (a
leader that moves, a broker that starts again), up to `kafkaConsumer.pollTimeoutMs` without a
record; and what is gone (a segment deleted meanwhile, a topic deleted or made anew) is reported as
lost. Answers are handed on as they came: `tasks` decodes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.client.errors import (
    ClientError,
    CorruptAnswer,
    LeaderNotAvailable,
    UnknownTopicOrPartition,
    broker_error,
)
from moldau.engine.backoff import Backoff
from moldau.engine.cluster import Cluster
from moldau.engine.fetch_requests import (
    NO_REPLICA,
    FetchLimits,
    fetch_request,
    fetch_version,
    without_session,
)
from moldau.engine.fetch_sessions import FetchPosition
from moldau.engine.fetched_batches import split
from moldau.engine.metadata import TopicImage
from moldau.engine.offset_lookup import OffsetLookup
from moldau.engine.retry import METADATA_ERRORS
from moldau.engine.settings import IsolationLevel
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    AbortedTransaction,
    FetchablePartitionResponse,
    FetchRequest,
    FetchResponse,
)
from moldau.records.batch import MAGIC, BatchSpan
from moldau.spark.errors import ReadInterrupted
from moldau.spark.source.loss import report_loss
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.ranges import OffsetRange

_GONE_AFTER_MS: Final = 5_000
"""For how long a topic is not to be found before it counts as deleted: a broker that has just
started learns of topics within that time."""
_FIRST_SIZE_A_RECORD: Final = 1024
"""How large a record is taken to be before one was seen, to ask for no more than a short range
needs."""
_SPARE: Final = 65_536
"""Asked for on top of what a range should need: a batch that ends it comes whole anyhow."""
_ASKED_IN_A_ROW: Final = 2
"""A leader, and the replica that it names: who is sent on once more pauses first."""


class Answer(NamedTuple):
    """What one fetch brought."""

    view: memoryview
    spans: Sequence[BatchSpan]
    fetch_offset: int
    aborted: Sequence[AbortedTransaction]


class Fetching:
    """Fetches a range, answer by answer. Owned by the connection's loop."""

    def __init__(
        self, cluster: Cluster, options: SourceOptions, wanted: OffsetRange, topic_id: str
    ) -> None:
        """`topic_id` is that of the topic which was planned for, as in `RangePartition`."""
        settings = cluster.settings
        self._cluster = cluster
        self._options = options
        self._name, self._position, self._end = wanted
        self._topic_id = bytes.fromhex(topic_id) or ZERO_TOPIC_ID
        self._record_size = float(_FIRST_SIZE_A_RECORD)
        self._rack = options.rack
        self._replica: int | None = None
        """The broker that the leader has named as nearer, and that is read from then."""
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)

    async def next(self) -> Answer | None:
        """Fetch what comes next; None at the end of the range.

        Cancelled, it may be called again.
        """
        deadline = self._cluster.deadline(self._options.poll_timeout_ms)
        failure_count = 0
        while self._position < self._end:
            try:
                told = await self._fetch()
                if told is not None and (answer := self._taken(told)) is not None:
                    return answer
                failure: ClientError | None = None
            except ClientError as error:
                if not self._left_replica():
                    await self._recover(error)
                failure = error
            if self._position >= self._end:
                break  # it has ended after all, however late that was found out
            failure_count += 1
            pause_s = self._backoff.wait_s(failure_count, self._cluster.ports.random)
            if self._cluster.ports.clock.monotonic() + pause_s >= deadline:
                raise self._too_late() from failure
            await asyncio.sleep(pause_s)
        return None

    def _too_late(self) -> ReadInterrupted:
        waited_ms = self._options.poll_timeout_ms
        return ReadInterrupted(
            f"nothing came of {self._name} from offset {self._position} on for {waited_ms} ms,"
            f" though it should have records up to {self._end}: check that its leader is up and"
            " no quota throttles this client, or raise kafkaConsumer.pollTimeoutMs"
        )

    # Asking

    async def _fetch(self) -> FetchablePartitionResponse | None:
        """Ask the leader, or the replica it names; None if nobody has said what there is.

        A broker that names another sends no records whatever it has, so that its answer must not
        be taken for one without any.
        """
        for _ in range(_ASKED_IN_A_ROW):
            told = await self._ask()
            if told is None or told.preferred_read_replica == NO_REPLICA:
                return told
            await self._turn_to(told.preferred_read_replica)
        return None

    async def _turn_to(self, replica: int) -> None:
        """Read from a replica from now on, if it can be found out where that is.

        A leader that is not told where we stand serves us itself.
        """
        if self._left_replica():
            return
        if replica not in self._cluster.image.brokers:
            await self._ask_who_leads()
        if replica in self._cluster.image.brokers:
            self._replica = replica
        else:
            self._rack = ""

    def _left_replica(self) -> bool:
        """Go back to the leader for good, if a replica was read from; whatever it knows better."""
        was_replica = self._replica is not None
        if was_replica:
            self._replica, self._rack = None, ""
        return was_replica

    async def _ask(self) -> FetchablePartitionResponse | None:
        """Send one request; None if the broker throttles us, and says nothing but that."""
        topic = await self._known_topic()
        led = self._cluster.image.leader(*self._name)
        if led is None:
            raise LeaderNotAvailable(f"{self._name} has no leader now")
        topic_id = topic.topic_id if self._topic_id == ZERO_TOPIC_ID else self._topic_id
        reader = led.leader if self._replica is None else self._replica
        connection = await self._cluster.connection(reader)
        wanted = {
            self._name: FetchPosition(topic_id, self._position, led.leader_epoch, self._size())
        }
        version = fetch_version(connection.agreed_version(FetchRequest), wanted)
        limits = FetchLimits(
            max_wait_ms=0,  # what is asked for is there: nothing is worth waiting for
            min_bytes=0,
            max_bytes=self._size(),
            isolation=self._options.isolation,
            rack=self._rack,
        )
        request = fetch_request(without_session(wanted), limits)
        answer: FetchResponse = await connection.send(request, version)
        if answer.error_code:
            raise broker_error(answer.error_code)
        for told in answer.responses:
            for one in told.partitions:
                if one.error_code:
                    raise broker_error(
                        one.error_code, f"{self._name}: {ErrorCode.of(one.error_code).text}"
                    )
                return one
        if answer.throttle_time_ms > 0:
            return None  # the connection keeps quiet for as long as the broker asked
        raise CorruptAnswer(f"the answer to a fetch leaves {self._name} out")

    def _size(self) -> int:
        """Return how many bytes to ask for: no more than the rest of the range seems to need."""
        needed = (self._end - self._position) * self._record_size
        return min(self._options.fetch_size, int(needed) + _SPARE)

    async def _known_topic(self) -> TopicImage:
        topic = self._cluster.image.topics.get(self._name.topic)
        if topic is None:
            deadline = self._cluster.deadline(_GONE_AFTER_MS)
            topic = await self._cluster.topic(self._name.topic, deadline)
        return topic

    # Being answered

    def _taken(self, told: FetchablePartitionResponse) -> Answer | None:
        """Take what was told; None if there was nothing, and the position may be the end then."""
        if not told.records:
            self._pass_gap(told)
            return None
        view = told.records
        assert isinstance(view, memoryview)
        try:
            found = split(view, self._position)
        except CorruptRecords as error:
            raise CorruptAnswer(f"{self._name} at offset {self._position}: {error}") from error
        if found.next_offset <= self._position:
            raise CorruptAnswer(f"{self._name}: nothing whole came from offset {self._position} on")
        spans = [
            span for span in found.spans if span.magic != MAGIC or span.base_offset < self._end
        ]
        answer = Answer(view, spans, self._position, told.aborted_transactions or ())
        self._record_size = found.size / (found.next_offset - self._position)
        self._position = found.next_offset
        return answer

    def _pass_gap(self, told: FetchablePartitionResponse) -> None:
        """Go to the end if the broker has it all and yet nothing to send: it was compacted away.

        A leader that has just been elected does not know yet that it has it all, and is asked
        again.
        """
        readable_end = told.high_watermark
        if self._options.isolation is IsolationLevel.READ_COMMITTED and (
            told.last_stable_offset >= 0
        ):
            readable_end = told.last_stable_offset
        if readable_end >= self._end:
            self._position = self._end

    # What goes wrong

    async def _recover(self, error: ClientError) -> None:
        """Find out what can be done about an error; raises it if nothing can."""
        code = getattr(error, "code", None)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._out_of_range()
        elif isinstance(error, UnknownTopicOrPartition) and await self._is_gone():
            self._lost(f"{self._name} was deleted")
        elif code in METADATA_ERRORS:
            await self._ask_who_leads()
            self._check_topic()
        elif error.retriable:
            self._cluster.request_refresh()
        else:
            raise error

    async def _ask_who_leads(self) -> None:
        try:
            await self._cluster.refresh()
        except ClientError as error:
            if not error.retriable:
                raise

    async def _is_gone(self) -> bool:
        await self._ask_who_leads()
        deadline = self._cluster.deadline(_GONE_AFTER_MS)
        try:
            topic = await self._cluster.topic(self._name.topic, deadline)
        except UnknownTopicOrPartition:
            return True
        return self._name.partition not in topic.partitions

    def _check_topic(self) -> None:
        """See whether the topic still is the one that was planned for."""
        topic = self._cluster.image.topics.get(self._name.topic)
        known = (ZERO_TOPIC_ID, self._topic_id)
        if topic is not None and self._topic_id != ZERO_TOPIC_ID and topic.topic_id not in known:
            self._lost(f"topic {self._name.topic!r} was deleted and created again")

    def _lost(self, what: str) -> None:
        """Give up the rest of the range."""
        report_loss(what, fail=self._options.fail_on_data_loss)
        self._position = self._end

    async def _out_of_range(self) -> None:
        """Go on where the log begins now, if anything of the range is left there."""
        lookup = OffsetLookup(self._cluster, self._options.isolation, self._options.poll_timeout_ms)
        first = (await lookup.beginnings([self._name], None))[self._name]
        if first <= self._position:
            end = (await lookup.ends([self._name], None))[self._name]
            if end >= self._position:
                return  # it is there after all: the leader has changed meanwhile
            self._lost(
                f"{self._name} ends at offset {end}, before {self._position}: its log was cut off"
            )
            return
        report_loss(
            f"{self._name} has no records before offset {first} any more, and {self._position} to"
            f" {min(first, self._end)} were to be read",
            fail=self._options.fail_on_data_loss,
        )
        self._position = min(first, self._end)
