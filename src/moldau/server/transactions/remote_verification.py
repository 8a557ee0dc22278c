"""Questions to transaction coordinators on other brokers, by AddPartitionsToTxn 4 and later.

To each broker there is one request on its way. Questions that come meanwhile wait, and leave
together in the next one, each id once (KIP-890). Of an id, only the newest producer waits: an older
epoch is fenced anyway. What one producer asks in several requests is asked together.

A coordinator that cannot be reached counts as one that is not available now: the producer tries
again, and by then another broker may be the coordinator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from moldau.base.ids import BrokerId, PartitionKey
from moldau.coordination.outcome import ProducerIdentity
from moldau.engine.errors import ClientError
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from moldau.server.nodes.one_in_flight import OneInFlight
from moldau.server.transactions.partitions import Verdicts
from moldau.server.transactions.remote_markers import BrokerCalls

logger = logging.getLogger(__name__)

LOWEST_VERSION: Final = 4
"""The first version in which brokers ask."""

PARTITIONS_PER_REQUEST: Final = 500
"""Partitions after which a request has no room for another question, so that none takes long to
encode or to decode. A producer that writes to more at once is asked for in parts."""

AGAIN: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""The verdict where nobody has said anything: the producer tries again."""


class _Asker(NamedTuple):
    """One who asked, and for what."""

    keys: Sequence[PartitionKey]
    answer: asyncio.Future[Verdicts]

    def tell(self, codes: Mapping[PartitionKey, ErrorCode], otherwise: ErrorCode = AGAIN) -> None:
        """Answer, unless the producer has left."""
        if not self.answer.done():
            self.answer.set_result({key: codes.get(key, otherwise) for key in self.keys})


class _Question(NamedTuple):
    """What is asked of one transactional id."""

    transactional_id: str
    producer: ProducerIdentity
    add: bool
    keys: dict[PartitionKey, None]
    askers: list[_Asker]

    def tell(self, codes: Mapping[PartitionKey, ErrorCode], otherwise: ErrorCode = AGAIN) -> None:
        for asker in self.askers:
            asker.tell(codes, otherwise)


class RemoteCoordinators:
    """Asks the transaction coordinators of other brokers. Owned by the event loop's thread."""

    def __init__(self, calls: BrokerCalls) -> None:
        self._calls = calls
        self._queues: dict[BrokerId, _Queue] = {}

    def ask(
        self,
        broker_id: BrokerId,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[PartitionKey],
        *,
        add: bool,
    ) -> asyncio.Future[Verdicts]:
        """Say of each partition whether the producer has it in its transaction; add it if asked."""
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = _Queue(broker_id, self._calls)
        if len(partitions) <= PARTITIONS_PER_REQUEST:
            return queue.ask(transactional_id, producer, partitions, add=add)
        return asyncio.get_running_loop().create_task(
            _ask_in_parts(queue, transactional_id, producer, partitions, add=add)
        )

    async def close(self) -> None:
        """End the connections; who waits is told that the coordinator is not available."""
        await self._calls.close()
        for queue in self._queues.values():
            await queue.ended()


class _Queue:
    """What one broker is asked, request by request."""

    def __init__(self, broker_id: BrokerId, calls: BrokerCalls) -> None:
        self._broker_id = broker_id
        self._calls = calls
        self._waiting: dict[str, _Question] = {}
        self._requests = OneInFlight(
            f"ask the coordinator on broker {broker_id}", self._waiting, self._ask_next
        )
        self._is_reachable = True

    def ask(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[PartitionKey],
        *,
        add: bool,
    ) -> asyncio.Future[Verdicts]:
        asker = _Asker(partitions, asyncio.get_running_loop().create_future())
        waiting = self._waiting.get(transactional_id)
        if waiting is not None and _is_older(producer, waiting.producer):
            asker.tell({}, ErrorCode.INVALID_PRODUCER_EPOCH)
            return asker.answer
        if waiting is None or (waiting.producer, waiting.add) != (producer, add):
            if waiting is not None:
                _displace(waiting, producer)
            waiting = _Question(transactional_id, producer, add, {}, [])
            self._waiting[transactional_id] = waiting
        waiting.keys.update(dict.fromkeys(partitions))
        waiting.askers.append(asker)
        self._requests.begin()
        return asker.answer

    async def ended(self) -> None:
        """Wait until nothing is in flight."""
        await self._requests.ended()

    async def _ask_next(self) -> None:
        questions = self._take()
        codes = await self._send(questions)
        for one in questions:
            one.tell(codes.get(one.transactional_id, {}))

    def _take(self) -> list[_Question]:
        """Take what the next request has room for, in the order in which it came."""
        taken: list[_Question] = []
        room = PARTITIONS_PER_REQUEST
        while self._waiting and room > 0:
            transactional_id = next(iter(self._waiting))
            taken.append(self._waiting.pop(transactional_id))
            room -= len(taken[-1].keys)
        return taken

    async def _send(self, questions: Sequence[_Question]) -> Mapping[str, Verdicts]:
        """Send one request; nothing is said of what has no answer."""
        try:
            request = AddPartitionsToTxnRequest([_message(one) for one in questions])
            response: AddPartitionsToTxnResponse = await self._calls.call(
                self._broker_id, request, lowest_version=LOWEST_VERSION
            )
            codes = _verdicts(response)
        except (ClientError, OSError, ValueError) as error:
            self._unreachable(str(error))
            return {}
        except Exception:
            logger.exception("a bug while the coordinator on broker %d is asked", self._broker_id)
            return {}
        if response.error_code:
            self._unreachable(ErrorCode(response.error_code).name)
        else:
            self._is_reachable = True
        return codes

    def _unreachable(self, reason: str) -> None:
        """Say once that transactions cannot be verified."""
        log = logger.warning if self._is_reachable else logger.debug
        self._is_reachable = False
        log("broker %d does not say what is in its transactions, their producers try again: %s",
            self._broker_id, reason)  # fmt: skip


async def _ask_in_parts(
    queue: _Queue,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Sequence[PartitionKey],
    *,
    add: bool,
) -> Verdicts:
    verdicts: dict[PartitionKey, ErrorCode] = {}
    for start in range(0, len(partitions), PARTITIONS_PER_REQUEST):
        part = partitions[start : start + PARTITIONS_PER_REQUEST]
        verdicts.update(await queue.ask(transactional_id, producer, part, add=add))
    return verdicts


def _is_older(producer: ProducerIdentity, waiting: ProducerIdentity) -> bool:
    """Tell whether a producer was replaced by the one that waits."""
    return (
        producer.producer_id == waiting.producer_id
        and producer.producer_epoch < waiting.producer_epoch
    )


def _displace(waiting: _Question, producer: ProducerIdentity) -> None:
    """Answer what waits, because another question about its id takes its place."""
    fenced = _is_older(waiting.producer, producer)
    waiting.tell({}, ErrorCode.INVALID_PRODUCER_EPOCH if fenced else AGAIN)


def _message(question: _Question) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in question.keys:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = AddPartitionsToTxnTopic(name, [])
        topic.partitions.append(index)
    return AddPartitionsToTxnTransaction(
        question.transactional_id, *question.producer, not question.add, list(topics.values())
    )


def _verdicts(response: AddPartitionsToTxnResponse) -> dict[str, dict[PartitionKey, ErrorCode]]:
    """Read what was said of each id; what was not tried may be tried again."""
    verdicts: dict[str, dict[PartitionKey, ErrorCode]] = {}
    for transaction in response.results_by_transaction:
        codes = verdicts[transaction.transactional_id] = {}
        for topic in transaction.topic_results:
            for one in topic.results_by_partition:
                code = ErrorCode(one.partition_error_code)
                if code is not ErrorCode.OPERATION_NOT_ATTEMPTED:
                    codes[PartitionKey(topic.name, one.partition_index)] = code
    return verdicts
