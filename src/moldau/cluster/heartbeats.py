"""What the controller answers to a broker's heartbeat, and what it changes then. Pure.

A broker is fenced, in service, or in controlled shutdown, and asks for the next state:

    fenced       wants to stop                       stops at once
    fenced       wants to serve, has read that       in service
                 it is registered
    in service   wants to be fenced                  fenced; stops at once if it wants that too
    in service   wants to stop                       controlled shutdown if it leads, else at once
    shutting     anything                            stops when it leads nothing, and all active
                                                     brokers have read who leads instead

A broker that has lost all its log directories can serve nothing, and is taken to want fencing.
Kafka ends such a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple

from moldau.base.ids import BrokerId
from moldau.cluster.brokers import (
    begin_controlled_shutdown,
    directories_left,
    fence_broker,
    lose_directories,
    registered_broker,
    unfence_broker,
)
from moldau.cluster.changes import BrokerChanged
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker
from moldau.cluster.record_codec import CORDONED_LEVEL, metadata_level
from moldau.cluster.steps import Step, Stepwise, walk_partitions


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a broker tells the controller every few seconds."""

    broker_id: BrokerId
    broker_epoch: int
    metadata_offset: int
    """The offset of the last metadata record in its image: the image's version less one."""
    want_fence: bool = False
    want_shut_down: bool = False
    offline_directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] | None = None
    """Log directories that take no new replicas (KIP-1066); None if it does not say."""


class HeartbeatAnswer(NamedTuple):
    """What the controller says to that."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


class _State(Enum):
    FENCED = auto()
    IN_SERVICE = auto()
    SHUTTING_DOWN = auto()
    STOPPED = auto()


def answer_heartbeat(
    image: MetadataImage,
    heartbeat: Heartbeat,
    *,
    is_shutdown_seen: bool,
    unclean_by_default: bool = False,
) -> Stepwise[HeartbeatAnswer]:
    """Decide on a heartbeat.

    `is_shutdown_seen` tells whether all active brokers have read that this one left its partitions.
    """
    broker = registered_broker(image, heartbeat.broker_id, heartbeat.broker_epoch)
    yield from _cordon(image, broker, heartbeat.cordoned_directories)
    # A broker's epoch is the version that its registration was decided on. Every later version has
    # the registration, since a commit is seen whole or not at all.
    is_caught_up = heartbeat.metadata_offset >= broker.epoch
    state = _state(broker)
    leads = False
    if heartbeat.want_shut_down or state is _State.SHUTTING_DOWN:
        leads = yield from _leads_any(image, broker.id)
    rest = directories_left(broker, heartbeat.offline_directories)
    is_broken = rest != broker.log_directories
    following = _next_state(
        state,
        replace(heartbeat, want_fence=True) if is_broken and not rest else heartbeat,
        is_caught_up=is_caught_up,
        leads=leads,
        is_shutdown_seen=is_shutdown_seen,
    )
    unclean = unclean_by_default
    if is_broken and (rest or broker.fenced or following is state):
        offline = heartbeat.offline_directories
        yield from lose_directories(image, broker, offline, unclean_by_default=unclean)
        if rest:
            # The next heartbeat changes the state.
            following = state
    elif following is not state:
        yield from _enter(
            image, broker, following, may_lack_records=is_broken, unclean_by_default=unclean
        )
    return HeartbeatAnswer(
        is_caught_up,
        is_fenced=following in (_State.FENCED, _State.STOPPED),
        should_shut_down=following is _State.STOPPED,
    )


def _cordon(
    image: MetadataImage, broker: Broker, directories: tuple[bytes, ...] | None
) -> Iterator[Step]:
    """Note which directories take no new replicas. Those that lie there stay."""
    if directories is None or metadata_level(image) < CORDONED_LEVEL:
        return
    if set(directories) != set(broker.cordoned_log_directories or ()):
        yield BrokerChanged(broker.id, broker.epoch, cordoned_log_directories=directories)


def _state(broker: Broker) -> _State:
    if broker.fenced:
        return _State.FENCED
    return _State.SHUTTING_DOWN if broker.in_controlled_shutdown else _State.IN_SERVICE


def _next_state(
    state: _State,
    heartbeat: Heartbeat,
    *,
    is_caught_up: bool,
    leads: bool,
    is_shutdown_seen: bool,
) -> _State:
    if state is _State.SHUTTING_DOWN:
        return state if leads or not is_shutdown_seen else _State.STOPPED
    if state is _State.FENCED:
        if heartbeat.want_shut_down:
            return _State.STOPPED
        return state if heartbeat.want_fence or not is_caught_up else _State.IN_SERVICE
    if heartbeat.want_fence:
        return _State.STOPPED if heartbeat.want_shut_down else _State.FENCED
    if heartbeat.want_shut_down:
        return _State.SHUTTING_DOWN if leads else _State.STOPPED
    return state


def _enter(
    image: MetadataImage,
    broker: Broker,
    state: _State,
    *,
    may_lack_records: bool,
    unclean_by_default: bool,
) -> Iterator[Step]:
    if state is _State.IN_SERVICE:
        return unfence_broker(image, broker, unclean_by_default=unclean_by_default)
    if state is _State.SHUTTING_DOWN:
        return begin_controlled_shutdown(image, broker, unclean_by_default=unclean_by_default)
    return fence_broker(
        image,
        broker.id,
        may_lack_records=may_lack_records,
        unclean_by_default=unclean_by_default,
    )


def _leads_any(image: MetadataImage, broker_id: BrokerId) -> Stepwise[bool]:
    for place in walk_partitions(image):
        if place is None:
            yield None
        elif place[1].leader == broker_id:
            return True
    return False
