"""Consume, transform, produce: a hundred records in each transaction, with the offsets read."""

from __future__ import annotations

from bench.stage import DATA_PARTITIONS, Stage, data_topic, fill, load

RECORDS_PER_TRANSACTION = 100
_RECORD_SIZE = 100


def run(stage: Stage) -> dict[str, float]:
    count = stage.scale.transactions
    records = 2 * count * RECORDS_PER_TRANSACTION
    with stage.brokers() as brokers:
        source, target = data_topic(brokers, "source"), data_topic(brokers, "target")
        fill(brokers, source, _RECORD_SIZE, records * _RECORD_SIZE, records)
        measured = load(
            "copy",
            address=brokers.address,
            source=source,
            target=target,
            partitions=DATA_PARTITIONS,
            size=RECORDS_PER_TRANSACTION,
            warm_up=count,
            count=count,
        )
    return {"rate": measured["records"] / measured["seconds"]}
