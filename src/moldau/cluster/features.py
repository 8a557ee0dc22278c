"""The features of a cluster: the levels that this broker supports, and those in force. Pure.

The metadata has the levels of all features of a cluster formatted by Kafka 4.3, so that Kafka finds
nothing to upgrade. Clients get only the levels that this broker supports. For the newer group
protocols that is 0, so that no client uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.base.texts import shorten
from moldau.cluster.configs import ELIGIBLE_LEADERS_FEATURE
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import FeatureRange
from moldau.cluster.record_codec import METADATA_VERSION
from moldau.protocol.errors import ApiError, ErrorCode

FIRST_METADATA_LEVEL: Final = 7
TRANSACTION_FEATURE: Final = "transaction.version"
KRAFT_FEATURE: Final = "kraft.version"

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
UPDATE_TYPES: Final = frozenset({UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE})

_CHANGEABLE: Final = (
    FeatureRange(ELIGIBLE_LEADERS_FEATURE, 0, 1),
    FeatureRange("group.version", 0, 0),
    FeatureRange("share.version", 0, 0),
    FeatureRange("streams.version", 0, 0),
    FeatureRange(TRANSACTION_FEATURE, 0, 2),
)


class FeatureUpdate(NamedTuple):
    """A request to change the level of a feature."""

    name: str
    level: int
    type: int


def supported_features(image: MetadataImage, kraft_version: int) -> dict[str, FeatureRange]:
    """Return the levels that this broker supports, by name.

    Metadata is written in the format of the level in force, and the quorum keeps its version. So no
    higher level of these two is offered.
    """
    ranges = (
        *_CHANGEABLE,
        FeatureRange(KRAFT_FEATURE, 0, kraft_version),
        FeatureRange(
            METADATA_VERSION, FIRST_METADATA_LEVEL, image.features.get(METADATA_VERSION, 0)
        ),
    )
    return {one.name: one for one in sorted(ranges)}


def levels_in_force(image: MetadataImage, supported: Mapping[str, FeatureRange]) -> dict[str, int]:
    """Return the level of each feature in force here, without those at 0."""
    levels = {
        one.name: min(image.features.get(one.name, 0), one.maximum) for one in supported.values()
    }
    levels[KRAFT_FEATURE] = supported[KRAFT_FEATURE].maximum
    return {name: level for name, level in levels.items() if level}


def check_update(image: MetadataImage, kraft_version: int, update: FeatureUpdate) -> None:
    """Raise ApiError INVALID_UPDATE_VERSION unless the feature has this level already."""
    supported = supported_features(image, kraft_version).get(update.name)
    level = kraft_version if update.name == KRAFT_FEATURE else image.features.get(update.name, 0)
    problem = _problem(update, level, supported)
    if problem is not None:
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION,
            "The update failed for all features since the following feature had an error: "
            f"Invalid update version {update.level} for feature {shorten(update.name)}. {problem}",
        )


def _problem(update: FeatureUpdate, level: int, known: FeatureRange | None) -> str | None:
    if update.type not in UPDATE_TYPES:
        problem = "The controller does not support the given upgrade type."
    elif update.level < 0:
        problem = "A feature version cannot be less than 0."
    elif known is None:
        problem = "This broker does not support this feature."
    elif update.level == level:
        return None
    elif not known.minimum <= update.level <= known.maximum:
        problem = f"This broker only supports versions {known.minimum}-{known.maximum}"
    elif update.level < level and update.type == UPGRADE:
        problem = (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    else:
        problem = f"This broker does not change the level of a feature; it is {level}."
    return problem
