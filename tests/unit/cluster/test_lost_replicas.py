"""Replicas whose log directory has failed leave their ISRs, and others lead."""

from __future__ import annotations

from kits.metadata_samples import after, topic_id, with_brokers, with_topic
from moldau.cluster.brokers import lose_replicas
from moldau.cluster.topics import NewTopic


def test_only_the_lost_replicas_leave_and_others_lead():
    image = with_brokers([1, 2, 3])
    image = with_topic(image, NewTopic("t", assignments={0: [1, 2, 3], 1: [1, 2, 3]}))
    topic = image.topics["t"]
    unknown = [(topic_id(99), 0), (topic.id, 7)]
    changes = [
        change
        for change in lose_replicas(image, 1, [(topic.id, 0), *unknown])
        if change is not None
    ]
    lost, kept = after(image, changes).topics["t"].partitions
    assert lost.leader == 2
    assert 1 not in (*lost.isr, *lost.eligible_leaders)
    assert kept == topic.partitions[1]
    # Told once more, there is nothing to change.
    assert not any(lose_replicas(after(image, changes), 1, [(topic.id, 0)]))
