"""Functions of the user's that see every record on its way (KIP-42).

Several stand in a chain, in order. One that changes what it sees hands its result to the next. One
that fails is logged and passed over: the record goes on with what the one before made of it (B3).
Which methods there are is the client's matter: `on_send` and `on_acknowledgement` of a producer,
`on_consume` and `on_commit` of a consumer; an interceptor has those it needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from moldau.client.errors import ClientError
from moldau.client.records import ProducerRecord, RecordMetadata

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ProducerInterceptor(Protocol):
    """Sees records before they are serialized, and what became of them."""

    def on_send(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any]:
        """Return the record to send instead, or the same; called in the thread that sends."""
        ...

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: ClientError | None
    ) -> None:
        """Learn where a record was put, or why not; called on the event loop: be quick."""
        ...


class InterceptorChain:
    """Interceptors in their order."""

    def __init__(self, interceptors: Iterable[Any], configs: Mapping[str, Any]) -> None:
        self._interceptors = tuple(interceptors)
        for one in self._interceptors:
            method = getattr(one, "configure", None)
            if method is not None:
                method(configs)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def changed(self, name: str, value: T) -> T:
        """Let each change a value in turn."""
        for method in self._methods(name):
            try:
                value = method(value)
            except Exception:
                logger.exception("the interceptor %r failed and is passed over", method)
        return value

    def tell(self, name: str, *arguments: Any) -> None:
        """Tell each something."""
        for method in self._methods(name):
            try:
                method(*arguments)
            except Exception:
                logger.exception("the interceptor %r failed and is passed over", method)

    def _methods(self, name: str) -> Iterable[Callable[..., Any]]:
        for one in self._interceptors:
            method = getattr(one, name, None)
            if method is not None:
                yield method

    def close(self) -> None:
        """Close those that can be closed."""
        self.tell("close")
