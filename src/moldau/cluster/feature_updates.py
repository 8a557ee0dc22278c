"""Decisions on the levels of features (UpdateFeatures; KIP-584, KIP-778). Pure.

All updates of a request are made, or none. The order of the checks and their texts are those of
Kafka's controller: this software, every broker and every controller have to support a new level,
and a lower one has to be asked for as a downgrade.

`metadata.version` decides in which form records are written. It goes up at any time. It goes down
only between levels with the same forms: what a record says in a newer form would be lost with the
next snapshot. Kafka refuses an unsafe downgrade as well.

One rule differs. A partition whose ISR is empty has all that is committed on its eligible leaders.
They become its ISR where these are turned off. Kafka only forgets them, and then waits for an
unclean election.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from moldau.base.texts import shorten
from moldau.cluster.changes import Change, ConfigChanged, FeatureLevelSet, PartitionChanged
from moldau.cluster.configs import (
    ELIGIBLE_LEADERS_FEATURE,
    EVERY_BROKER,
    MIN_INSYNC_REPLICAS,
    eligible_leaders_kept,
)
from moldau.cluster.features import KRAFT_FEATURE, KraftLevels, supported_features
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import FeatureRange, ResourceType
from moldau.cluster.record_codec import (
    CONTROLLERS_LEVEL,
    ELIGIBLE_LEADERS_LEVEL,
    METADATA_VERSION,
    metadata_level,
)
from moldau.cluster.steps import Step, Stepwise, walk_partitions
from moldau.protocol.errors import ApiError, ErrorCode

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_UPDATE_TYPES: Final = frozenset({UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE})

_NEW_FORMS: Final = frozenset({8, 11, 13, 14, 15, 17, 23, 30})
"""The levels of `metadata.version` from which on there are records, or versions of records, that
nodes of the level before do not know."""


class FeatureUpdate(NamedTuple):
    """A request to change the level of a feature."""

    name: str
    level: int
    type: int


@dataclass(frozen=True, slots=True)
class QuorumContext:
    """What the image does not tell of the quorum and of the controller that decides."""

    controller_id: int
    """The active controller, the one that decides; what it supports is this software's."""
    voters: Collection[int]
    """The nodes that vote, this one included."""
    kraft: KraftLevels
    min_insync_replicas: int
    """What the settings of this node say, for a cluster whose metadata do not."""
    unready_voters: Collection[int] = ()
    """The voters of the settings that have not said yet how the log has to name them."""


def update_features(
    image: MetadataImage, updates: Sequence[FeatureUpdate], quorum: QuorumContext | None
) -> Iterator[Step]:
    """Decide on new levels, all or none; ApiError INVALID_UPDATE_VERSION says what cannot be.

    The level that is in force is always accepted. Without a quorum no other one is: in a cluster on
    ZooKeeper, levels stay as they are.
    """
    proposed = {**image.features, **{one.name: one.level for one in updates}}
    changed = []
    for update in updates:
        level = _level(image, update.name, quorum)
        problem = _malformed(image, update, quorum)
        if problem is None and update.level != level:
            problem = yield from _refusal(image, update, level, proposed, quorum)
            changed.append(update)
        if problem is not None:
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"The update failed for all features since the following feature had an error:"
                f" {problem}",
            )
    if quorum is not None:
        for update in changed:
            yield from _transition(image, update, quorum)
    for update in changed:
        if update.name != KRAFT_FEATURE:
            yield FeatureLevelSet(update.name, update.level)


def raises_kraft_version(updates: Sequence[FeatureUpdate], quorum: QuorumContext | None) -> bool:
    """Tell whether updates that `update_features` accepts raise `kraft.version`, too.

    No change says so: its records are the quorum's own.
    """
    level = _kraft(quorum).in_force
    return any(one.name == KRAFT_FEATURE and one.level > level for one in updates)


def _level(image: MetadataImage, name: str, quorum: QuorumContext | None) -> int:
    if name == KRAFT_FEATURE:
        return _kraft(quorum).in_force
    return image.features.get(name, 0)


def _kraft(quorum: QuorumContext | None) -> KraftLevels:
    return KraftLevels(0, 0) if quorum is None else quorum.kraft


def _invalid(update: FeatureUpdate, why: str) -> str:
    return f"Invalid update version {update.level} for feature {shorten(update.name)}. {why}"


# Why an update cannot be


def _malformed(
    image: MetadataImage, update: FeatureUpdate, quorum: QuorumContext | None
) -> str | None:
    """Return what is wrong with an update whatever the level in force is."""
    if update.type not in _UPDATE_TYPES:
        why = "The controller does not support the given upgrade type."
    elif update.level < 0:
        why = "A feature version cannot be less than 0."
    elif update.name not in supported_features(image, _kraft(quorum)):
        why = "This controller does not support this feature."
    else:
        return None
    return _invalid(update, why)


def _refusal(
    image: MetadataImage,
    update: FeatureUpdate,
    level: int,
    proposed: Mapping[str, int],
    quorum: QuorumContext | None,
) -> Stepwise[str | None]:
    """Return why a feature cannot go from its level to another one."""
    if update.name == KRAFT_FEATURE and not level < update.level <= _kraft(quorum).highest:
        return _invalid(update, f"This quorum keeps its kraft.version: it is {level}.")
    why = yield from _unsupported(image, update, quorum)
    why = why or _wrong_direction(update, level)
    if why is None and quorum is None:
        why = f"In a cluster on ZooKeeper the levels of features are not changed; it is {level}."
    if why is not None:
        return _invalid(update, why)
    if update.name == KRAFT_FEATURE:
        return _untold_voters(update, quorum)
    if update.name == METADATA_VERSION:
        return _lost_forms(update, level)
    return _missing_dependency(update, proposed)


def _wrong_direction(update: FeatureUpdate, level: int) -> str | None:
    if update.level < level and update.type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade."
        )
    if update.level > level and update.type != UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _unsupported(
    image: MetadataImage, update: FeatureUpdate, quorum: QuorumContext | None
) -> Stepwise[str | None]:
    """Return who does not support a level; fenced brokers count, since they come back."""
    for who, features in _nodes(image, quorum):
        yield None
        disabled = FeatureRange(update.name, 0, 0)
        known = next((one for one in features if one.name == update.name), disabled)
        if not known.maximum and update.level:
            return f"{who} does not support this feature."
        if not known.minimum <= update.level <= known.maximum:
            return f"{who} only supports versions {known.minimum}-{known.maximum}"
    if quorum is not None and metadata_level(image) >= CONTROLLERS_LEVEL:
        for voter in sorted(quorum.voters):
            if voter != quorum.controller_id and voter not in image.controllers:
                return f"controller {voter} has not registered, and may not support this feature"
    return None


def _nodes(
    image: MetadataImage, quorum: QuorumContext | None
) -> Iterator[tuple[str, Iterable[FeatureRange]]]:
    """Walk over all nodes with what they support, this one first."""
    own_id = None if quorum is None else quorum.controller_id
    who = "This controller" if own_id is None else f"Local controller {own_id}"
    return chain(
        [(who, supported_features(image, _kraft(quorum)).values())],
        ((f"Broker {one.id}", one.features) for one in image.brokers.values()),
        # This software may be newer than what the node registered in an earlier life.
        (
            (f"Controller {one.id}", one.features)
            for one in image.controllers.values()
            if one.id != own_id
        ),
    )


def _untold_voters(update: FeatureUpdate, quorum: QuorumContext | None) -> str | None:
    if quorum is None or not quorum.unready_voters:
        return None
    voters = ", ".join(map(str, sorted(quorum.unready_voters)))
    return _invalid(
        update,
        f"The log would name all voters, and node {voters} has not told the leader its directory"
        " and versions. It does so within seconds of an election: try again.",
    )


def _lost_forms(update: FeatureUpdate, level: int) -> str | None:
    if not any(update.level < one <= level for one in _NEW_FORMS):
        return None
    if update.type == UNSAFE_DOWNGRADE:
        why = "Unsafe metadata downgrade is not supported in this version."
    else:
        why = (
            "Refusing to perform the requested downgrade because it might delete metadata"
            " information."
        )
    return f"Unsupported metadata.version downgrade from {level} to {update.level}. {why}"


def _missing_dependency(update: FeatureUpdate, proposed: Mapping[str, int]) -> str | None:
    if update.name != ELIGIBLE_LEADERS_FEATURE or not update.level:
        return None
    if proposed.get(METADATA_VERSION, 0) >= ELIGIBLE_LEADERS_LEVEL:
        return None
    return _invalid(
        update,
        f"{update.name} could not be set to {update.level} because it depends on"
        f" {METADATA_VERSION} level {ELIGIBLE_LEADERS_LEVEL}",
    )


# What else changes with a level


def _transition(
    image: MetadataImage, update: FeatureUpdate, quorum: QuorumContext
) -> Iterator[Step]:
    if update.name != ELIGIBLE_LEADERS_FEATURE:
        return
    if update.level and not eligible_leaders_kept(image):
        yield from _one_minimum(image, quorum.min_insync_replicas)
    elif not update.level:
        yield from _eligible_leaders_in_isr(image)


def _one_minimum(image: MetadataImage, configured: int) -> Iterator[Change]:
    """Give all brokers the same `min.insync.replicas`: who is eligible depends on it."""
    if MIN_INSYNC_REPLICAS not in image.config(EVERY_BROKER):
        yield ConfigChanged(EVERY_BROKER, MIN_INSYNC_REPLICAS, str(configured))
    for resource, settings in image.configs.items():
        is_of_one_broker = resource.type == ResourceType.BROKER and resource != EVERY_BROKER
        if is_of_one_broker and MIN_INSYNC_REPLICAS in settings:
            yield ConfigChanged(resource, MIN_INSYNC_REPLICAS, None)


def _eligible_leaders_in_isr(image: MetadataImage) -> Iterator[Step]:
    for place in walk_partitions(image):
        if place is None:
            yield None
            continue
        topic, partition = place
        if partition.eligible_leaders:
            yield PartitionChanged(
                topic.id,
                partition.index,
                isr=None if partition.isr else partition.eligible_leaders,
                eligible_leaders=(),
                last_known_leaders=(),
            )
