"""What a cluster says of itself, checked against who leads its metadata, and who answers.

Brokers tell of brokers and partitions from their copy of the metadata. Without a leader nobody
changes those: they still name the last controller, and brokers that were killed since. So each
broker is asked whether it runs, and without a leader those that do not answer are struck.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, NamedTuple

from moldau.base.errors import UserError
from moldau.cli.frame import client
from moldau.cli.nouns.quorum_report import ask_quorum

QUORUM_PATIENCE_MS: Final = 3_000
"""How long the quorum may take. Without a majority it has no leader, and that is to be shown."""
BROKER_PATIENCE_MS: Final = 2_000
"""How long a broker may take to show that it runs."""


class ClusterView(NamedTuple):
    """A cluster as far as there is evidence for it."""

    cluster: client.ClusterDescription
    topics: Collection[client.TopicDescription]
    running: Collection[int]
    """The brokers that have answered."""
    quorum: client.MetadataQuorum | None = None
    """None with ZooKeeper, and where it is not known."""
    quorum_problem: str | None = None
    """Why it is not known."""


async def ask_brokers(admin: client.AsyncAdmin) -> ClusterView:
    """Ask for brokers and topics, and each broker if it runs; the quorum is still to be asked for.

    It has to come last. While nobody leads, a broker keeps that question for as long as it may, and
    answers nothing that was asked after it.
    """
    cluster = await admin.describe_cluster()
    names = await admin.list_topics(include_internal=True)
    topics = (await admin.describe_topics(names)).ok.values()
    told = [one.broker_id for one in cluster.brokers]
    running = (await admin.describe_api_versions(told, timeout_ms=BROKER_PATIENCE_MS)).ok
    return ClusterView(cluster, topics, running.keys())


async def check_leader(admin: client.AsyncAdmin, told: ClusterView) -> ClusterView:
    """Ask for the quorum. If nobody leads it, strike what brokers only remember."""
    try:
        quorum = await ask_quorum(admin, timeout_ms=QUORUM_PATIENCE_MS)
    except UserError:
        return told  # there is none: ZooKeeper names the controller
    except client.ClientError as error:
        problem = f"the metadata quorum does not answer, or nobody leads it: {error.what}"
        checked = told._replace(quorum_problem=problem)
        # What was refused, as without the right to ask, says nothing of the leader.
        return _without_leader(checked) if error.retriable else checked
    # A broker that knows of no controller names itself: every one passes requests on.
    led = replace(told.cluster, controller_id=quorum.leader_id)
    return told._replace(cluster=led, quorum=quorum)


def _without_leader(told: ClusterView) -> ClusterView:
    """Strike the controller, and the brokers that do not answer."""
    running = told.running
    brokers = tuple(one for one in told.cluster.brokers if one.broker_id in running)
    cluster = replace(told.cluster, controller_id=None, brokers=brokers)
    topics = [
        replace(topic, partitions=tuple(_served(one, running) for one in topic.partitions))
        for topic in told.topics
    ]
    return told._replace(cluster=cluster, topics=topics)


def _served(
    told: client.PartitionDescription, running: Collection[int]
) -> client.PartitionDescription:
    """Strike what does not run from leader and in-sync replicas."""
    leader = told.leader if told.leader in running else None
    return replace(told, leader=leader, isr=tuple(one for one in told.isr if one in running))
