"""A broker that takes the updates of a controller has the image of the controller.

A random history of commits is sent to brokers: to some in full, to some as what changed, several
commits at once. What cannot be true is refused, whatever it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.metadata_commits import IDS, draw_commit
from moldau.base.ids import BrokerId
from moldau.cluster.changes import BrokerChanged, BrokerRegistered, BrokerUnregistered
from moldau.cluster.image import MetadataImage
from moldau.cluster.image_difference import image_difference
from moldau.cluster.model import Broker, Endpoint, FeatureRange
from moldau.cluster.zookeeper.commands import outgoing
from moldau.cluster.zookeeper.commands.incoming import (
    UpdateOutOfOrder,
    Updates,
    updated_image,
)
from moldau.cluster.zookeeper.commands.outgoing import (
    Sender,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from moldau.cluster.zookeeper.commands.statements import UpdateRefused
from moldau.cluster.zookeeper.commands.touched import Touched
from moldau.protocol.compiler import decode, encode
from moldau.protocol.messages.replication import UpdateMetadataRequest

SENDER = Sender(BrokerId(1), 7)


def draw_brokers(draw, image, epoch):
    """Registrations, shutdowns and departures of brokers."""
    broker_id = BrokerId(draw(IDS))
    known = image.brokers.get(broker_id)
    if known is not None and draw(st.booleans()):
        if draw(st.booleans()):
            return [BrokerUnregistered(broker_id, known.epoch)]
        return [BrokerChanged(broker_id, known.epoch, in_controlled_shutdown=True)]
    made = Broker(
        broker_id,
        epoch,
        epoch.to_bytes(16),
        tuple(Endpoint(name, "h", 9092, 1) for name in draw(st.sets(st.sampled_from("AB")))),
        draw(st.none() | st.just("r")),
        draw(st.sampled_from([(), (FeatureRange("f", 0, 3),)])),
        fenced=False,
    )
    return [BrokerRegistered(made)]


def draw_history(draw, image, commits):
    """Commits after an image: the changes of each, and the image after it."""
    for _ in range(draw(commits)):
        number = image.version
        changes, after = draw_commit(draw, image, number)
        if draw(st.booleans()):
            more = draw_brokers(draw, after, number + 1)
            changes, after = changes + more, after.apply(more, after.version)
        yield changes, after
        image = after


def images(draw):
    image = MetadataImage()
    for _, after in draw_history(draw, image, st.integers(0, 4)):
        image = after
    return image


def sent(requests):
    """The requests as they arrive."""
    for request in requests:
        if request is not None:
            yield decode(UpdateMetadataRequest, 8, encode(request, 8))


def run(work):
    try:
        while True:
            next(work)
    except StopIteration as stop:
        return stop.value


def take(image, requests):
    """What a broker with this image makes of an update."""
    updates, update = Updates(), None
    for request in sent(requests):
        assert update is None
        update = updates.take(request, image.version)
    assert update is not None
    return run(updated_image(image, update))


def check(old, new, requests):
    changes, image = take(old, requests)
    assert image == new
    assert old.apply(changes, new.version) == new
    # Listeners hear of what differs, and of nothing else.
    assert Counter(changes) == Counter(image_difference(old, new))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_full_update_gives_the_image(data):
    old = images(data.draw)
    new = old
    for _, after in draw_history(data.draw, old, st.integers(1, 3)):
        new = after
    new = replace(new, version=old.version + 1)
    check(old, new, update_metadata(SENDER, 5, None, new, Touched()))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 3, 200]))
def test_what_changed_gives_the_image(data, weight):
    old = images(data.draw)
    touched, new = Touched(), old
    for changes, after in draw_history(data.draw, old, st.integers(1, 4)):
        touched.take(changes)
        new = after
    kept, outgoing.PIECE_WEIGHT = outgoing.PIECE_WEIGHT, weight
    try:
        check(old, new, update_metadata(SENDER, 5, old, new, touched))
        check(old, new, update_metadata(SENDER, 5, old, new, Touched(all=True)))
        check(MetadataImage(), new, update_metadata(SENDER, 5, None, new, touched))
    finally:
        outgoing.PIECE_WEIGHT = kept


@settings(max_examples=60, deadline=None)
@given(st.data(), IDS)
def test_replicas_are_started_and_stopped(data, broker_id):
    """What was touched names the same replicas as a look at everything."""
    old = images(data.draw)
    touched, new = Touched(), old
    for changes, after in draw_history(data.draw, old, st.integers(1, 4)):
        touched.take(changes)
        new = after
    for command in (leader_and_isr, stop_replica):
        few = replicas(command(SENDER, broker_id, 5, old, new, touched))
        every = replicas(command(SENDER, broker_id, 5, old, new, Touched(all=True)))
        assert few == every
    roles = replicas(leader_and_isr(SENDER, broker_id, 5, None, new, touched))
    stops = replicas(stop_replica(SENDER, broker_id, 5, old, new, touched))
    held = {(topic.name, one.index) for topic, one in new.replicas_on(broker_id)}
    before = {(topic.name, one.index) for topic, one in old.replicas_on(broker_id)}
    assert roles.keys() == held
    assert stops.keys() == before - held


def replicas(requests):
    """The states of requests by topic and partition."""
    return {
        (topic.topic_name, state.partition_index): state
        for request in requests
        if request is not None
        for topic in request.topic_states
        for state in topic.partition_states
    }


NUMBERS = st.sampled_from([-(2**31), -2, -1, 0, 1, 2, 5, 7, 2**15 - 1])


def spoil(draw, struct):
    """Change one field of a request, or of a part of it."""
    name = draw(st.sampled_from(struct.__match_args__))
    value = getattr(struct, name)
    if isinstance(value, list):
        spoil_list(draw, value)
    elif isinstance(value, bool):
        setattr(struct, name, not value)
    elif isinstance(value, int):
        setattr(struct, name, draw(NUMBERS))
    elif isinstance(value, str):
        setattr(struct, name, draw(st.sampled_from(["", "a", "b", "..", "ü", "x" * 300])))
    elif isinstance(value, bytes):
        setattr(struct, name, draw(st.sampled_from([bytes(16), b"\xff" * 16])))


def spoil_list(draw, value):
    kind = draw(st.integers(0, 3))
    if kind == 0 and value:
        value.append(draw(st.sampled_from(value)))
    elif kind == 1 and value:
        value.pop(draw(st.integers(0, len(value) - 1)))
    elif value and hasattr(value[0], "__match_args__"):
        spoil(draw, draw(st.sampled_from(value)))
    elif value and isinstance(value[0], int):
        value.append(draw(NUMBERS))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_what_cannot_be_true_is_refused(data):
    """It is taken as another truth or refused, and never fails in another way."""
    old = images(data.draw)
    touched, new = Touched(), old
    for changes, after in draw_history(data.draw, old, st.integers(1, 2)):
        touched.take(changes)
        new = after
    base = data.draw(st.sampled_from([None, old]))
    (request,) = sent(update_metadata(SENDER, 5, base, new, touched))
    for _ in range(data.draw(st.integers(1, 3))):
        spoil(data.draw, request)
    own = data.draw(st.sampled_from([old, MetadataImage()]))
    try:
        update = Updates().take(request, own.version)
        if update is not None:
            changes, image = run(updated_image(own, update))
            assert own.apply(changes, image.version) == image
    except (UpdateRefused, UpdateOutOfOrder):
        pass
