"""Functions of the user's that see every record on its way (KIP-42).

Several stand in a chain, in order. One that changes what it sees hands its result to the next. One
that fails is logged and passed over: the record goes on with what the one before made of it (B3).
Which methods there are is the client's matter: `on_send` and `on_acknowledgement` of a producer,
`on_consume` and `on_commit` of a consumer; an interceptor has those it needs. One that returns
nothing where it should return what it made of its argument has failed, too.
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
        self._interceptors = _made(interceptors)
        for one in self._interceptors:
            method = getattr(one, "configure", None)
            if method is not None:
                method(configs)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def changed(self, name: str, value: T, kind: type[Any] = object) -> T:
        """Let each change a value in turn; what it returns is of that kind, and never nothing."""
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


def _made(given: Any) -> tuple[Any, ...]:
    """Check what the user gave; ConfigError if nothing of it would ever be called."""
    if given == "":
        return ()  # as a properties file says that there are none
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(
            f"interceptor_classes={given!r} is not a list of interceptors; names of Java classes"
            " mean nothing here"
        )
    return tuple(_one(each) for each in given)


def _one(given: Any) -> Any:
    """Take an interceptor, or make one of a class: the setting's name does suggest one."""
    if not any(callable(getattr(given, name, None)) for name in METHODS):
        raise ConfigError(
            f"interceptor_classes: {given!r} is no interceptor: it has none of {', '.join(METHODS)}"
        )
    if not isinstance(given, type):
        return given
    try:
        return given()
    except TypeError as error:
        raise ConfigError(
            f"interceptor_classes: {given.__name__} cannot be made: {error}"
        ) from error
