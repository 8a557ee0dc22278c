"""Serializers and deserializers for keys and values.

A serializer is a function from the value to bytes, an object with Kafka's three methods
(`configure`, `serialize`, `close`), or the name of a built-in one. The same holds for
deserializers. A function is not called for None; an object is, and may return bytes for it.

    AsyncProducer(value_serializer=str.encode)      a function
    AsyncProducer(value_serializer="json")          a built-in
    AsyncProducer(value_serializer=AvroSerializer())  an object
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeVar

from moldau.base.errors import ConfigError
from moldau.base.tuples import NamedTuple
from moldau.client.errors import SerializationFailed

T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


class Serializer(Protocol[T_contra]):
    """Turns a key or value into bytes; implement this for your own types."""

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Receive the client's settings; called once, first."""
        ...

    def serialize(self, topic: str, data: T_contra) -> bytes | None:
        """Return the bytes of one key or value."""
        ...

    def close(self) -> None:
        """Release resources; called once, last."""
        ...


class Deserializer(Protocol[T_co]):
    """Turns bytes into a key or value; implement this for your own types."""

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Receive the client's settings; called once, first."""
        ...

    def deserialize(self, topic: str, data: bytes | None) -> T_co:
        """Return the key or value for these bytes."""
        ...

    def close(self) -> None:
        """Release resources; called once, last."""
        ...


class Serde(NamedTuple):
    """Both directions of one format."""

    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]
    takes: str = ""
    """What `write` raises TypeError for the lack of, where the error does not say it better."""


def _only(kinds: type | tuple[type, ...], write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Refuse what is of another type, where writing it would make bytes nobody meant."""

    def checked(value: Any) -> bytes:
        if not isinstance(value, kinds):
            raise TypeError
        return write(value)

    return checked


def _bytes() -> Serde:
    # bytes(5) is five zeros, and bytes([5]) one five.
    return Serde(_only((bytes, bytearray, memoryview), bytes), bytes, "bytes")


def _string() -> Serde:
    return Serde(str.encode, bytes.decode, "str")


def _number(form: str) -> Serde:
    packed = struct.Struct(form)

    def write(value: Any) -> bytes:
        if isinstance(value, bool):  # which is a number to `struct`
            raise TypeError
        return packed.pack(value)

    def read(data: bytes) -> Any:
        return packed.unpack(data)[0]

    return Serde(write, read, "numbers")


def _boolean() -> Serde:
    def read(data: bytes) -> bool:
        if data not in (b"\x00", b"\x01"):
            raise ValueError(f"a boolean is one byte, 0 or 1, not {data[:8]!r}")
        return data == b"\x01"

    return Serde(_only(bool, lambda value: b"\x01" if value else b"\x00"), read, "bool")


def _uuid() -> Serde:
    from uuid import UUID  # noqa: PLC0415 - only who names this form pays for its module

    write = _only(UUID, lambda value: str(value).encode())
    return Serde(write, lambda data: UUID(data.decode()), "UUID")


def _json() -> Serde:
    import json  # noqa: PLC0415 - only who names this form pays for its module

    def write(value: Any) -> bytes:
        # Not a number is no JSON either: others could not read it.
        made = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return made.encode()

    return Serde(write, json.loads)


BUILT_IN: Final[Mapping[str, Callable[[], Serde]]] = {
    "bytes": _bytes,
    "string": _string,
    "short": lambda: _number(">h"),
    "integer": lambda: _number(">i"),
    "long": lambda: _number(">q"),
    "float": lambda: _number(">f"),
    "double": lambda: _number(">d"),
    "boolean": _boolean,
    "uuid": _uuid,
    "json": _json,
}
"""What makes them, by the names of Java's classes without `Serializer`; their bytes are the same.
And JSON."""

_ALIASES: Final = {"bytearray": "bytes", "bytebuffer": "bytes", "str": "string", "int": "integer"}


def built_in(name: str) -> Serde:
    """Find a built-in form by name, or by the name of the Java class for it; else ConfigError."""
    short = name.rpartition(".")[2].lower()
    short = short.removesuffix("deserializer").removesuffix("serializer")
    make = BUILT_IN.get(_ALIASES.get(short, short))
    if make is None:
        raise ConfigError(
            f"there is no serializer {name!r}; built-in ones are {', '.join(BUILT_IN)}"
        )
    return make()


TextName = Literal["str", "string"]
"""The names that type checkers know the type of: `str`. All others stand for Any."""

Writer = Serializer[T_contra] | Callable[[T_contra], bytes]
Reader = Deserializer[T_co] | Callable[[bytes], T_co]

AnySerializer = Serializer[Any] | Callable[[Any], bytes] | str | None
AnyDeserializer = Deserializer[Any] | Callable[[bytes], Any] | str | None

Serialize = Callable[[str, Any], bytes | None]
Deserialize = Callable[[str, bytes | None], Any]


def serialize_with(given: AnySerializer) -> Serialize | None:
    """Return a function of topic and value; None where bytes are taken as they are."""
    if given is None:
        return None
    name = _name(given, "serializer")
    takes = ""
    if isinstance(given, str):
        form = built_in(given)
        given, takes = form.write, form.takes
    method = _method(given, "serialize")
    if method is not None:
        return _checked(method, name)
    if not callable(given):
        raise ConfigError(f"{given!r} is not a function and has no serialize()")
    plain = given

    def serialize(_topic: str, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return plain(value)
        except Exception as error:
            if takes and isinstance(error, TypeError):
                raise SerializationFailed(
                    f"{name} is for {takes}, not for {type(value).__name__}: {value!r:.100}"
                ) from error
            raise _failed(name, value, error) from error

    return serialize


def deserialize_with(given: AnyDeserializer) -> Deserialize | None:
    """Return a function of topic and bytes; None where bytes are handed out as they are."""
    if given is None:
        return None
    name = _name(given, "deserializer")
    if isinstance(given, str):
        given = built_in(given).read
    method = _method(given, "deserialize")
    if method is not None:
        return _checked(method, name)
    if not callable(given):
        raise ConfigError(f"{given!r} is not a function and has no deserialize()")
    plain = given

    def deserialize(_topic: str, data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return plain(data)
        except Exception as error:
            raise _failed(name, data, error) from error

    return deserialize


def _method(given: object, name: str) -> Callable[[str, Any], Any] | None:
    """Return what an object does the work with; ConfigError for a class, which cannot."""
    method: Callable[[str, Any], Any] | None = getattr(given, name, None)
    if method is not None and isinstance(given, type):
        called = given.__qualname__
        raise ConfigError(f"{called} is a class; pass an object: {called}()")
    return method


def _checked(method: Callable[[str, Any], Any], name: str) -> Callable[[str, Any], Any]:
    def call(topic: str, data: Any) -> Any:
        try:
            return method(topic, data)
        except Exception as error:
            raise _failed(name, data, error) from error

    return call


def _name(given: object, role: str) -> str:
    """Return what to call it when it fails: as the user did."""
    if isinstance(given, str):
        return f"the {given} {role}"
    return getattr(given, "__qualname__", None) or type(given).__qualname__


def _failed(name: str, data: object, error: Exception) -> SerializationFailed:
    reason = str(error) or type(error).__name__
    return SerializationFailed(f"{name} failed on a {type(data).__name__}: {reason}")


def configure(given: object, configs: Mapping[str, Any], *, is_key: bool) -> None:
    """Give an object its settings, where it takes any."""
    method = getattr(given, "configure", None)
    if method is not None:
        method(configs, is_key)


def close(given: object) -> None:
    """Close an object, where it can be closed."""
    method = getattr(given, "close", None)
    if method is not None:
        method()
