"""The controllership of one broker and its queue: what every family of requests stands on.

Without the controllership every request is refused with NOT_CONTROLLER, also those that wait in
the queue when it is lost. Clients take that code for "look for the controller and try again".
"""

from __future__ import annotations

import logging

from moldau.base.checks import invariant
from moldau.cluster.decisions import Decide, Decisions
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import collect_changes
from moldau.cluster.store import ControllerFenced, MetadataStore, OutcomeUnknown
from moldau.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)


class ControllerQueue:
    """Claims the controllership, and commits decisions one after the other while it is held."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._decisions: Decisions | None = None
        """The queue of the controllership that this broker holds; None while it holds none."""
        self._last_epoch = -1

    async def claim(self) -> bool:
        """Become the active controller if no other broker is; tell whether this one is now."""
        invariant(self._decisions is None, "the controller claims what it holds")
        controllership = await self._store.claim()
        if controllership is None:
            return False
        invariant(controllership.epoch > self._last_epoch, "a controller epoch was granted twice")
        self._last_epoch = controllership.epoch
        self._decisions = Decisions(self._store, controllership)
        self._activated()
        controllership.on_lost(self._lost)
        # It may have been lost on the way here: then `on_lost` has called already.
        return self._decisions is not None

    @property
    def is_active(self) -> bool:
        """Whether this broker is the active controller, as far as it knows."""
        return self._decisions is not None

    def _activated(self) -> None:
        """Begin what lasts as long as the controllership."""

    def _lost(self) -> None:
        logger.warning("no longer the controller: epoch %d is over", self._last_epoch)
        self._decisions = None

    def _active(self) -> Decisions:
        if self._decisions is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return self._decisions

    async def _commit(self, decide: Decide) -> MetadataImage:
        try:
            return await self._active().commit(decide)
        except ControllerFenced as error:
            raise ApiError(ErrorCode.NOT_CONTROLLER) from error
        except OutcomeUnknown as error:
            # What clients know as "it may have happened": they look, or ask again.
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error

    async def _carry_out(self, decide: Decide, *, validate_only: bool = False) -> None:
        if validate_only:
            await collect_changes(decide(self._current_image()))
        else:
            await self._commit(decide)

    def _current_image(self) -> MetadataImage:
        """Return the image to validate on; ApiError unless this is the active controller.

        One that was replaced and has not heard of it validates on an older image. That is harmless:
        nothing is written, and what was valid may be refused a moment later anyway.
        """
        self._active()
        return self._store.image
