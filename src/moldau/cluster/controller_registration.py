"""Decisions about controllers: one registers when it starts, or is removed for good. Pure.

A controller sends no heartbeats. That it is registered tells where it listens and what it supports,
not that it is alive (KIP-919). Its registration outlives it, and a later one replaces it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from moldau.base.ids import BrokerId
from moldau.cluster.changes import Change, ControllerRegistered, ControllerUnregistered
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import RegisteredController
from moldau.cluster.record_codec import CONTROLLERS_LEVEL, UNREGISTRATION_LEVEL, metadata_level
from moldau.protocol.errors import ApiError, ErrorCode

CONTROLLERS_MAX: Final = 100
"""How many controllers may be registered. Kafka sets no limit; every registration stays until it is
taken out by hand, and each change of a feature looks at all of them."""


def register_controller(image: MetadataImage, registration: RegisteredController) -> list[Change]:
    """Decide on a controller that starts. What it supports may be anything, as in Kafka.

    The same registration again, after an answer that was lost, changes nothing.
    """
    if metadata_level(image) < CONTROLLERS_LEVEL:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    known = image.controllers.get(registration.id)
    if known is None and len(image.controllers) >= CONTROLLERS_MAX:
        raise ApiError(
            ErrorCode.INVALID_REGISTRATION,
            f"{len(image.controllers)} controllers are registered already",
        )
    return [] if known == registration else [ControllerRegistered(registration)]


def unregister_controller(
    image: MetadataImage, controller_id: BrokerId, voters: Collection[int]
) -> list[Change]:
    """Decide on taking a controller out of the cluster for good."""
    if controller_id in voters:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot unregister controller {controller_id} because it is part of the voter set.",
        )
    if controller_id not in image.controllers:
        raise ApiError(
            ErrorCode.UNKNOWN_CONTROLLER_ID,
            f"Controller ID {controller_id} is not currently registered.",
        )
    if metadata_level(image) < UNREGISTRATION_LEVEL:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        )
    return [ControllerUnregistered(controller_id)]
