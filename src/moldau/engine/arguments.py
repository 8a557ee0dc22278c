"""Checks the arguments of calls, so that a wrong one is refused where it was given.

Without them it would be found where a request is encoded, perhaps in the background, where nobody
could tell which call it came from. A caller who checks types sees none of this.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import threading
import types
import typing
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

from moldau.engine.errors import InvalidArgument

P = ParamSpec("P")
R = TypeVar("R")

TOPIC_LENGTH_MAX = 249
"""Kafka's; a longer name is none that any broker takes."""


def check_topic(given: object) -> None:
    """Refuse what is no name of a topic; which characters it may have is the broker's to say."""
    if not isinstance(given, str):
        raise InvalidArgument(
            f"a topic is named by a str: {given!r:.100} is of type {type(given).__name__}"
        )
    if not given.isascii() or len(given) > TOPIC_LENGTH_MAX:
        from moldau.engine.broker_errors import InvalidTopic  # noqa: PLC0415 - knows every code

        raise InvalidTopic(f"{given!r:.300} is not the name of a topic")


def check_number(name: str, given: object) -> None:
    """Refuse what is neither a whole number nor a fraction: NaN is neither."""
    if not _fits(given, float):
        raise InvalidArgument(f"{name}={given!r:.100} is not a number")


def check_timeout(name: str, given: object) -> None:
    """Refuse what is no time to wait: to other clients a negative one means without end."""
    check_number(name, given)
    if typing.cast("float", given) < 0:
        raise InvalidArgument(f"{name}={given!r} is below 0")


def check_function(name: str, given: object) -> None:
    """Refuse what cannot be called."""
    if not callable(given):
        raise InvalidArgument(f"{name}={given!r:.100} is not a function")


def waiting_s(timeout: float | None) -> float | None:
    """Return for how long the system is asked to wait: some centuries are as good as more."""
    return None if timeout is None else min(timeout, threading.TIMEOUT_MAX)


def check_int(name: str, given: object) -> None:
    """Refuse what is no whole number."""
    if not _fits(given, int):
        raise InvalidArgument(f"{name}={given!r:.100} is not a whole number")


def check_text(name: str, given: object) -> None:
    """Refuse what is no text, and what no request can carry."""
    if not isinstance(given, str):
        raise InvalidArgument(f"{name}={given!r:.100} is not a str")
    if problem := why_not_sent(given):
        raise InvalidArgument(f"{name} {problem}")


def why_not_sent(text: str) -> str:
    """Say why no request can carry a text; empty if one can.

    Brokers end the connection that such a text comes by, so that it would be sent again and again.
    """
    from moldau.protocol.wire import TEXT_BYTES_MAX  # noqa: PLC0415 - not for a page of help

    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return f"is no text that UTF-8 can write: {text!r:.100}"
    return f"has {size} bytes; the protocol takes {TEXT_BYTES_MAX}" * (size > TEXT_BYTES_MAX)


def check_mapping(name: str, given: object) -> None:
    """Refuse what has no keys."""
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{name}={given!r:.100} is not a dict")


def checks_arguments(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Have a coroutine function refuse arguments that are not what its signature declares."""

    @functools.cache
    def declared() -> tuple[inspect.Signature, Mapping[str, Any]]:  # not all who import also call
        return inspect.signature(function), typing.get_type_hints(function)

    @functools.wraps(function)
    async def call(*arguments: P.args, **options: P.kwargs) -> R:
        signature, hints = declared()
        bound = signature.bind(*arguments, **options)
        for name, given in bound.arguments.items():
            if isinstance(given, Iterator):  # looking at it would use it up
                bound.arguments[name] = [*given]
        for name, given in bound.arguments.items():
            if name in hints and not _fits(given, hints[name]):
                raise InvalidArgument(
                    f"{name}={given!r:.100} is not {signature.parameters[name].annotation}"
                )
        return await function(*bound.args, **bound.kwargs)

    return call


def _fits(given: Any, hint: Any) -> bool:
    """Tell whether a value is of a declared type.

    Pairs, and what is kept by them, are `as_partition`'s to read and to refuse. A text that no
    request can carry is InvalidArgument, wherever it stands.
    """
    if isinstance(given, str) and (problem := why_not_sent(given)):
        raise InvalidArgument(f"a text {problem}")
    if hint in (int, float):
        return _is_number(given, whole=hint is int)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(given, one) for one in get_args(hint))
    if isinstance(hint, type) and origin is None:
        return isinstance(given, hint) and _fields_fit(given)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_fits(given, *get_args(hint))
    is_one = isinstance(given, (str, bytes)) or origin is tuple
    if is_one or not isinstance(given, Collection):
        return True
    return all(_fits(one, get_args(hint)[0]) for one in given)


def _is_number(given: Any, *, whole: bool) -> bool:
    if isinstance(given, float):
        return not whole and not math.isnan(given)  # which as a time would never come
    return isinstance(given, int) and not isinstance(given, bool)


def _mapping_fits(given: Any, key_hint: Any, value_hint: Any) -> bool:
    if not isinstance(given, Mapping):
        return False
    if not isinstance(key_hint, type):
        return True
    return all(_fits(key, key_hint) and _fits(value, value_hint) for key, value in given.items())


def _fields_fit(given: Any) -> bool:
    """Look into what has fields of its own, such as a NewTopic or a ConfigResource."""
    if not dataclasses.is_dataclass(given) and not hasattr(given, "_fields"):
        return True
    kind: Any = type(given)
    hints = _hints_of(kind)
    return all(_fits(getattr(given, name), hint) for name, hint in hints.items())


@functools.cache
def _hints_of(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)
