"""The producer, for asyncio and for threads: the same names, settings and behaviour.

    async with AsyncProducer("localhost:9092") as producer:
        delivery = producer.send("topic", b"value", key=b"key")   # at once, like StreamWriter.write
        await producer.drain()                                    # waits while the buffer is full
        metadata = await delivery

    with Producer("localhost:9092") as producer:
        delivery = producer.send("topic", b"value")               # waits while the buffer is full
        metadata = delivery.result()

Records are gathered and sent in the background whatever the program does meanwhile.
"""

from __future__ import annotations

from moldau.client.interceptors import ProducerInterceptor
from moldau.client.producing.asynchronous import AsyncProducer
from moldau.client.producing.deliveries import AsyncDelivery, Delivery
from moldau.client.producing.partitioners import (
    ConsistentRandomPartitioner,
    KeyedRoundRobinPartitioner,
    MetadataAgePartitioner,
    PartitionedCluster,
    Partitioner,
    PartitionFunction,
    RoundRobinPartitioner,
)
from moldau.client.producing.scopes import AsyncTransaction, Transaction
from moldau.client.producing.threaded import Producer
from moldau.client.records import ProducerRecord
from moldau.engine.metadata import BrokerImage

__all__ = [
    "AsyncDelivery",
    "AsyncProducer",
    "AsyncTransaction",
    "BrokerImage",
    "ConsistentRandomPartitioner",
    "Delivery",
    "KeyedRoundRobinPartitioner",
    "MetadataAgePartitioner",
    "PartitionFunction",
    "PartitionedCluster",
    "Partitioner",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "RoundRobinPartitioner",
    "Transaction",
]
