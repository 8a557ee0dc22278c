"""The features of a cluster: the levels that this software supports, and those in force. Pure.

The metadata has the levels of all features of a cluster formatted by Kafka 4.3, so that Kafka finds
nothing to upgrade. Clients get only the levels that this software supports. For the newer group
protocols that is 0, so that no client uses them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.cluster.configs import ELIGIBLE_LEADERS_FEATURE
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import FeatureRange
from moldau.cluster.record_codec import CORDONED_LEVEL, METADATA_VERSION, metadata_level

FIRST_METADATA_LEVEL: Final = 7
LAST_METADATA_LEVEL: Final = CORDONED_LEVEL
"""That of Kafka 4.3, the newest whose records can be written."""
TRANSACTION_FEATURE: Final = "transaction.version"
KRAFT_FEATURE: Final = "kraft.version"

_CHANGEABLE: Final = (
    FeatureRange(ELIGIBLE_LEADERS_FEATURE, 0, 1),
    FeatureRange("group.version", 0, 0),
    FeatureRange("share.version", 0, 0),
    FeatureRange("streams.version", 0, 0),
    FeatureRange(TRANSACTION_FEATURE, 0, 2),
)


class KraftLevels(NamedTuple):
    """The levels of `kraft.version`, which the image does not have: records of the quorum do."""

    in_force: int
    highest: int
    """A quorum of one keeps the form in which it was formatted, so no higher level is offered."""


def supported_features(image: MetadataImage, kraft: KraftLevels) -> dict[str, FeatureRange]:
    """Return the levels that this software supports, by name.

    A newer level of the metadata that is in force is told as it is.
    """
    newest = max(LAST_METADATA_LEVEL, metadata_level(image))
    ranges = (
        *_CHANGEABLE,
        FeatureRange(KRAFT_FEATURE, 0, kraft.highest),
        FeatureRange(METADATA_VERSION, FIRST_METADATA_LEVEL, newest),
    )
    return {one.name: one for one in sorted(ranges)}


def levels_in_force(image: MetadataImage, kraft: KraftLevels) -> dict[str, int]:
    """Return the level of each feature in force here, without those at 0."""
    supported = supported_features(image, kraft).values()
    levels = {one.name: min(image.features.get(one.name, 0), one.maximum) for one in supported}
    levels[KRAFT_FEATURE] = kraft.in_force
    return {name: level for name, level in levels.items() if level}
