"""Records that are gone before they were read: the end of a query, or a line in its log.

The option `failOnDataLoss` decides which. Everybody who finds a gap reports it here, so that the
user reads the same words about what can be done.
"""

from __future__ import annotations

import logging

from moldau.spark.errors import DataLost

logger = logging.getLogger(__name__)


def report_loss(what: str, *, fail: bool) -> None:
    """Raise DataLost, or log what was lost and go on."""
    if fail:
        raise DataLost(
            f"{what}; records may have been lost before they were read. Set failOnDataLoss=false"
            " to go on with what is there"
        )
    logger.warning("%s; going on with what is there, as failOnDataLoss=false", what)
