"""The cluster-wide `min.insync.replicas` that a metadata log with eligible leaders states.

Which replicas are eligible depends on this minimum, so it is in the metadata from the first start
on (KIP-966), with the value the settings gave then. Earlier versions of Moldau stated 1 whatever
the settings said. Their record can be told from a user's own: it stands in the first batch of the
log, outside any metadata transaction, and nobody has set the minimum since. Once the first batch
is gone behind a snapshot it cannot be told any more, and what is stated stays.
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
"""Behind the record that states the leader."""

_OF_EARLIER_VERSIONS: Final = ConfigChanged(EVERY_BROKER, MIN_INSYNC_REPLICAS, "1")


class ClusterMinimum:
    """What the settings say of the minimum, and whether the log states it in their place."""

    def __init__(self, configured: int) -> None:
        self._configured = str(configured)
        self._assumed = False

    def saw(self, offset: int, values: Sequence[bytes]) -> None:
        """Look at one batch of the log, in its order."""
        if offset == _FIRST_OFFSET:
            changes = [decode_record(value) for value in values]
            plain = isinstance(next(iter(changes), None), FeatureLevelSet)
            self._assumed = plain and changes[-1] == _OF_EARLIER_VERSIONS
        elif self._assumed and any(map(_sets_minimum, values)):
            self._assumed = False

    def stated(self, image: MetadataImage) -> list[Change]:
        """Return what a cluster that starts has to add."""
        missing = MIN_INSYNC_REPLICAS not in image.config(EVERY_BROKER)
        if not missing or not eligible_leaders_kept(image):
            return []
        return [ConfigChanged(EVERY_BROKER, MIN_INSYNC_REPLICAS, self._configured)]

    def corrected(self, image: MetadataImage) -> list[Change]:
        """Return what puts an assumed minimum right."""
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
