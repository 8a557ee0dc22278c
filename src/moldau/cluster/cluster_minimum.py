"""The cluster-wide `min.insync.replicas` in a metadata log with eligible leaders.

The choice of eligible leaders depends on this minimum. So it is in the metadata from the first
start on (KIP-966), with the value of the settings at that time. Earlier versions of Moldau wrote 1
in any case. Their record is recognised: it is in the first batch of the log, outside of a metadata
transaction, and no later record sets the minimum. If a snapshot has replaced the first batch, the
record cannot be recognised, and the value stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.cluster.changes import Change, ConfigChanged, FeatureLevelSet
from moldau.cluster.configs import (
    EVERY_BROKER,
    MIN_INSYNC_REPLICAS,
    alter_configs,
    eligible_leaders_kept,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.record_codec import CONFIG_RECORD, decode_record, record_key

_FIRST_OFFSET: Final = 1
"""After the LeaderChange record."""

_OF_EARLIER_VERSIONS: Final = ConfigChanged(EVERY_BROKER, MIN_INSYNC_REPLICAS, "1")


class ClusterMinimum:
    """The minimum of the settings, and whether the log has the 1 of an earlier version instead."""

    def __init__(self, configured: int) -> None:
        self._configured = str(configured)
        self._assumed = False

    def is_watching(self, offset: int) -> bool:
        """Tell whether a batch at this offset has to be looked at."""
        return offset == _FIRST_OFFSET or self._assumed

    def saw(self, offset: int, values: Sequence[bytes]) -> None:
        """Look at one batch of the log. Call it for all that are watched, in order."""
        if offset == _FIRST_OFFSET:
            changes = [decode_record(value) for value in values]
            plain = isinstance(next(iter(changes), None), FeatureLevelSet)
            self._assumed = plain and changes[-1] == _OF_EARLIER_VERSIONS
        elif self._assumed and any(map(_sets_minimum, values)):
            self._assumed = False

    def stated(self, image: MetadataImage) -> list[Change]:
        """Return the change that sets the minimum of a new cluster."""
        missing = MIN_INSYNC_REPLICAS not in image.config(EVERY_BROKER)
        if not missing or not eligible_leaders_kept(image):
            return []
        return [ConfigChanged(EVERY_BROKER, MIN_INSYNC_REPLICAS, self._configured)]

    def corrected(self, image: MetadataImage) -> list[Change]:
        """Return the change that corrects the value of an earlier version."""
        if not self._assumed:
            return []
        return alter_configs(image, EVERY_BROKER, {MIN_INSYNC_REPLICAS: self._configured})


def _sets_minimum(value: bytes) -> bool:
    if record_key(value) != CONFIG_RECORD:
        return False
    change = decode_record(value)
    return (
        isinstance(change, ConfigChanged)
        and change.resource == EVERY_BROKER
        and change.key == MIN_INSYNC_REPLICAS
    )
