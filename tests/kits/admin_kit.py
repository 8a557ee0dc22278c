"""What tests of the admin share: scripted brokers, and the versions of an old release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kits.scripted_broker import Answer, Asked, ScriptedBroker
from moldau.client.admin import AsyncAdmin
from moldau.protocol.messages.metadata import ApiVersion, ApiVersionsResponse
from moldau.protocol.registry import find_api

QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 10,
         "reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 10}  # fmt: skip

LATER_THAN_1_1 = (43, 44, 45, 46, 47, 48, 60, 61, 65, 66, 69, 74, 75)

VERSIONS_OF_1_1 = {
    2: 2, 3: 5, 8: 3, 9: 3, 10: 1, 13: 1, 15: 1, 16: 1, 18: 1, 19: 2, 20: 1, 21: 0, 22: 0, 27: 0,
    32: 1, 33: 0, 35: 0, 37: 0, 42: 0, **dict.fromkeys(LATER_THAN_1_1, -1),
}  # fmt: skip
"""The newest version of each API that a broker of Kafka 1.1 serves; -1 for those it does not."""


class AdminBroker(ScriptedBroker):
    """A scripted broker that serves further APIs, each by its key."""

    def __init__(self, broker_id: int = 1, answers: dict[int, Answer] | None = None) -> None:
        super().__init__(broker_id)
        for key, answer in (answers or {}).items():
            self.serve(key, answer)

    def serve(self, key: int, answer: Answer, newest: int | None = None) -> None:
        """Answer an API this way from now on."""
        self.newest[key] = find_api(key).versions.last if newest is None else newest
        self._answers[key] = answer

    def say_versions(self, asked: Asked) -> None:
        keys = [
            ApiVersion(key, find_api(key).versions.first, newest)
            for key, newest in self.newest.items()
        ]
        asked.answer(ApiVersionsResponse(api_keys=keys))


def in_turn(*answers: Any) -> Answer:
    """Answer with these one after the other, the last for good; callables are called."""
    left = list(answers)

    def answer(asked: Asked) -> Any:
        now = left.pop(0) if len(left) > 1 else left[0]
        return now(asked) if callable(now) else asked.answer(now)

    return answer


def hang_up(asked: Asked) -> None:
    """End the connection instead of answering."""
    asked.writer.transport.abort()


def admin_of(brokers: Iterable[ScriptedBroker], **settings: Any) -> AsyncAdmin:
    """Make an admin that is in a hurry."""
    return AsyncAdmin(
        [broker.address for broker in brokers],
        **{"default_api_timeout_ms": 10_000, **QUICK, **settings},
    )
