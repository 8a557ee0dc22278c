"""The checks at the end of a run, when all is calm: everything is read, replayed and verified.

Clients have compared what they were told as it came (`history`). What is left is to read all that
there is, to look inside the broker, and, once it has stopped, at the files it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from moldau.base.ids import PartitionKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.replication.partition import Partition
from moldau.server.broker import Broker
from moldau.sim.disk import SimDisk
from moldau.sim.history import LogEnds, PartitionHistory, Read, Violation
from moldau.sim.process import SimBroker
from moldau.sim.workload.client import Link, Worker
from moldau.sim.workload.consumer import EARLIEST, fetched_records
from moldau.sim.workload.targets import Targets, TopicTarget
from moldau.storage.folder_names import partition_of
from moldau.storage.log import Log
from moldau.storage.producer_history import replay_batch
from moldau.storage.producers import Producer, ProducerStates
from moldau.storage.verify import verify_partition

FETCH_SIZE = 20_000

LINGER_S = 1.0
"""For requests whose clients were gone when the broker stopped."""


class FinalReader(Worker):
    """Reads every partition from its start to its end, when nobody writes any more."""

    def __init__(self, targets: Targets) -> None:
        super().__init__(targets, "final-reader")
        self._done = False

    @property
    def finished(self) -> bool:
        return self._done

    async def work(self, link: Link) -> None:
        for topic in self.targets.live:
            for index in range(topic.partition_count):
                await self._read_all(link, topic, index)
        self._done = True

    async def _read_all(self, link: Link, topic: TopicTarget, index: int) -> None:
        history = topic.histories[index]
        start, records = -1, list[Read]()
        offset, end = 0, -1
        while offset != end:
            known = link.known(history)
            wanted = FetchPartition(index, fetch_offset=offset, partition_max_bytes=FETCH_SIZE)
            response = await link.call(
                FetchRequest(
                    max_wait_ms=0,
                    min_bytes=0,
                    max_bytes=FETCH_SIZE,
                    topics=[FetchTopic(topic.name, topic.id, [wanted])],
                )
            )
            result = response.responses[0].partitions[0]
            if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                log_start = await self._log_start(link, topic, index)
                if offset >= log_start:
                    raise Violation(f"P2: {history.name} does not know offset {offset}")
                # It does not start at 0, or retention was faster than we are.
                offset = start = log_start
                records.clear()
                continue
            if result.error_code:
                raise Violation(
                    f"P7: {history.name} at {offset}, when all is well: "
                    f"{ErrorCode.of(result.error_code).name}"
                )
            found = fetched_records(history.name, result.records, offset)
            place = LogEnds(
                result.log_start_offset, result.last_stable_offset, result.high_watermark
            )
            history.read(known, offset, place, found)
            if not found and offset < place.end:
                raise Violation(f"P7: {history.name} gives nothing at {offset} of {place.end}")
            records += found
            start, end = max(start, 0), place.end
            offset += len(found)
        history.final(start, records)
        whole = start == 0 and self.targets.era == 0
        check_producers_order(history, records, whole=whole)

    async def _log_start(self, link: Link, topic: TopicTarget, index: int) -> int:
        asked = ListOffsetsTopic(topic.name, [ListOffsetsPartition(index, -1, EARLIEST)])
        response = await link.call(ListOffsetsRequest(-1, topics=[asked]))
        result = response.topics[0].partitions[0]
        if result.error_code:
            name = ErrorCode.of(result.error_code).name
            raise Violation(f"P7: the start of {topic.name}-{index}, when all is well: {name}")
        return int(result.offset)


def check_producers_order(history: PartitionHistory, records: list[Read], *, whole: bool) -> None:
    """P4: what an idempotent producer wrote stands in the order in which it was sent.

    In a `whole` log, of which nothing was removed or lost, none may be missing in between.
    """
    last: dict[str, int] = {}
    for record in records:
        producer, _, numbers = record.value.decode().partition("/")
        if not producer.startswith("idempotent"):
            continue
        number = int(numbers.split("/")[1])
        before = last.get(producer, -1)
        gapless = whole and producer not in history.given_up
        if number <= before or (gapless and number != before + 1):
            raise Violation(f"P4: {history.name}: {producer} has {number} behind {before}")
        last[producer] = number


def check_insides(broker: Broker) -> None:
    """Look at what a running broker keeps in memory of every partition."""
    for partition in broker.parts.partitions:
        log = partition.log
        if not log.log_start_offset <= partition.last_stable_offset <= partition.high_watermark:
            raise Violation(f"I7: {partition.key} {partition.high_watermark} in {log}")
        if partition.high_watermark > log.log_end_offset:
            raise Violation(f"I1: {partition.key} high watermark beyond {log}")
        _check_epochs(partition)
        _check_producers(partition)


def _check_epochs(partition: Partition) -> None:
    """I6: epochs ascend with their start offsets, and are those of the batches.

    Of a compacted log the first batches of an epoch may be gone.
    """
    log = partition.log
    if log.config.compacts:
        for segment in log.segments:
            for batch in segment.batches():
                begun = [one for one in log.epochs.entries if one.start_offset <= batch.base_offset]
                if not begun or begun[-1].epoch != batch.leader_epoch:
                    raise Violation(f"I6: {partition.key} knows {begun[-1:]}, not that of {batch}")
        return
    stored: dict[int, int] = {}
    for segment in log.segments:
        for batch in segment.batches():
            if batch.last_offset >= log.log_start_offset:
                stored.setdefault(batch.leader_epoch, max(batch.base_offset, log.log_start_offset))
    known: dict[int, int] = {
        epoch: start for epoch, start in log.epochs.entries if start < log.log_end_offset
    }
    first = next(iter(stored), None)
    if first is not None and known.get(first, -1) > log.log_start_offset:
        # A crash can take back the log's start, but not what the epochs have forgotten below it.
        stored[first] = known[first]
    if known != stored:
        raise Violation(f"I6: {partition.key} knows epochs {known}, its batches have {stored}")


def _check_producers(partition: Partition) -> None:
    """I8: producer state is what a replay of the log yields, and more only of what is removed."""
    log = partition.log
    replayed = ProducerStates()
    for segment in log.segments:
        for batch in segment.batches():
            replay_batch(replayed, segment, batch)
    for producer in replayed:
        known = log.producers.get(producer.producer_id)
        if known is None or (
            _essence(known) != _essence(producer) and not _is_compacted_away(log, known)
        ):
            raise Violation(f"I8: {partition.key} knows {known}, its batches have {producer}")
    if log.segments[0].base_offset == 0:
        for known in log.producers:
            if replayed.get(known.producer_id) is None and not _is_compacted_away(log, known):
                raise Violation(f"I8: {partition.key} knows {known}, its batches know no such")


def _is_compacted_away(log: Log, producer: Producer) -> bool:
    """Tell whether compaction has removed the batch that this state comes from.

    A power cut may take back the end of a log that was cleaned by what stood there: the records of
    a transaction went because its marker followed, and now the marker is gone and it is open again.
    The state is that of the leader, which may have these records still.
    """
    if not log.config.compacts or not producer.batches:
        return False
    last_offset = producer.batches[-1].last_offset
    batches = (batch for segment in log.segments for batch in segment.batches())
    return all(batch.last_offset != last_offset for batch in batches)


def _essence(producer: Producer) -> tuple[int, int, int]:
    """What decides which batch is taken next."""
    return producer.epoch, producer.last_sequence, producer.transaction_first_offset


async def check_no_task_left(broker: SimBroker) -> None:
    """E10: after an orderly stop nothing of the process goes on; requests under way may end."""
    await asyncio.sleep(LINGER_S)
    if leaked := broker.leaked_tasks():
        raise Violation(f"E10: tasks outlive an orderly stop: {leaked}")


def check_files(disk: SimDisk, folder: str, compacted_topics: Collection[str]) -> None:
    """E9: what an orderly stop leaves in a log directory is sound."""
    for name in disk.names(folder):
        key: PartitionKey | None = partition_of(name)
        if key is not None:
            compacted = key.topic in compacted_topics
            findings = verify_partition(disk, f"{folder}/{name}", compacted=compacted)
            if findings:
                raise Violation(f"E9: {findings[0]}")
