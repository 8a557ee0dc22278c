"""One broker that comes or goes with its session, where the product decides for all at once."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.base.ids import BrokerId
from moldau.cluster.broker_arrivals import brokers_changed
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker
from moldau.cluster.steps import Step


def broker_came(
    image: MetadataImage, broker: Broker, *, may_lack_records: bool = False
) -> Iterator[Step]:
    """Register a broker; its disk may have lost committed records."""
    lacking = {broker.id} if may_lack_records else ()
    return brokers_changed(image, {**image.brokers, broker.id: broker}, lacking)


def broker_left(image: MetadataImage, broker_id: BrokerId) -> Iterator[Step]:
    """Unregister a broker whose session has ended."""
    live = {one: broker for one, broker in image.brokers.items() if one != broker_id}
    return brokers_changed(image, live)
