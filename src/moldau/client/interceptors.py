"""Interceptors: user code that sees every record (KIP-42).

Several interceptors form a chain. Each gets the result of the one before. One that fails is logged
and skipped; the chain continues with the previous result. Returning None instead of a result counts
as a failure. The methods are `on_send` and `on_acknowledgement` for a producer, and `on_consume`
and `on_commit` for a consumer. An interceptor needs at least one of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from moldau.base.errors import ConfigError
from moldau.client.errors import ClientError
from moldau.client.records import ProducerRecord, RecordMetadata

logger = logging.getLogger(__name__)

T = TypeVar("T")

METHODS: Final = ("on_send", "on_acknowledgement", "on_consume", "on_commit")


class ProducerInterceptor(Protocol):
    """Sees records before serialization, and their results."""

    def on_send(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any]:
        """Return the same record or a replacement; called in the thread that sends."""
        ...

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: ClientError | None
    ) -> None:
        """Receive the metadata or the error of a record; runs on the event loop, so be quick."""
        ...


class InterceptorChain:
    """Interceptors in order."""

    def __init__(self, interceptors: Iterable[Any], configs: Mapping[str, Any]) -> None:
        self._interceptors = _made(interceptors)
        for one in self._interceptors:
            method = getattr(one, "configure", None)
            if method is not None:
                method(configs)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def changed(self, name: str, value: T, kind: type[Any] = object) -> T:
        """Pass a value through all interceptors; each must return an object of that kind."""
        for method in self._methods(name):
            try:
                changed = method(value)
            except Exception:
                logger.exception("the interceptor %r failed and is passed over", method)
                continue
            if changed is None or not isinstance(changed, kind):
                logger.error("the interceptor %r is passed over: it returned a %s, not a %s",
                             method, type(changed).__name__, type(value).__name__)  # fmt: skip
            else:
                value = changed
        return value

    def tell(self, name: str, *arguments: Any) -> None:
        """Call a method of each interceptor."""
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
        """Close all interceptors that have a `close` method."""
        self.tell("close")


def _made(given: Any) -> tuple[Any, ...]:
    """Return the user's interceptors; ConfigError if one has no method that is called."""
    if given == "":
        return ()  # as a properties file says that there are none
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(
            f"interceptor_classes={given!r} is not a list of interceptors; names of Java classes"
            " do not work here"
        )
    return tuple(_one(each) for each in given)


def _one(given: Any) -> Any:
    """Return an interceptor, or an instance of a class, which the setting's name suggests."""
    if not any(callable(getattr(given, name, None)) for name in METHODS):
        raise ConfigError(
            f"interceptor_classes: {given!r} has none of the methods {', '.join(METHODS)}"
        )
    if not isinstance(given, type):
        return given
    try:
        return given()
    except TypeError as error:
        raise ConfigError(
            f"interceptor_classes: cannot create {given.__name__}: {error}"
        ) from error
