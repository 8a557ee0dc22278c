"""Codecs for declared messages: made on first use, kept for good.

A codec is one flat function for one (message, version, direction); `decoding` and `encoding` write
it, this module keeps it. Nothing is compiled at import: a broker meets a few dozen of the seven
hundred possible pairs, and `moldau --help` none.

The two hot calls, `decoder` and `encoder`, hand out the function itself, for callers to keep;
`decode` and `encode` are the convenient forms for stored records, rare paths and tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from moldau.base.errors import ProtocolError
from moldau.base.files import Buffer
from moldau.base.network import Part
from moldau.protocol.decoding import compile_decoder
from moldau.protocol.encoding import compile_encoder
from moldau.protocol.layout import Layout

M = TypeVar("M")

Decoder = Callable[[memoryview, int], tuple[M, int]]
"""Takes one whole frame and where the message begins in it; gives the message and where it ends."""

Encoder = Callable[[M], list[Part]]
"""Takes a message; gives its parts: one `bytes`, or more where records lie between."""

_decoders: dict[tuple[type[Any], int], Decoder[Any]] = {}
_encoders: dict[tuple[type[Any], int], Encoder[Any]] = {}


def decoder(message: type[M], version: int) -> Decoder[M]:
    """The decoder of this message in this version.

    It either returns or raises ProtocolError, whatever the bytes. Records of the message are slices
    of the view it was given; everything else is its own.
    """
    found = _decoders.get((message, version))
    if found is None:
        found = compile_decoder(message, _layout(message, version))
        _decoders[message, version] = found
    return found


def encoder(message: type[M], version: int) -> Encoder[M]:
    """The encoder of this message in this version.

    It raises EncodeError for a value the wire cannot carry. Fields that this version does not have
    are left out. Records are put between the other parts as they are, never read or copied.
    """
    found = _encoders.get((message, version))
    if found is None:
        found = compile_encoder(message, _layout(message, version))
        _encoders[message, version] = found
    return found


def decode(message: type[M], version: int, data: Buffer) -> M:
    """Decode a message that fills the buffer; bytes left over are refused."""
    decoded, end = decoder(message, version)(memoryview(data), 0)
    if end != len(data):
        raise ProtocolError(f"{message.__name__} v{version} is followed by {len(data) - end} bytes")
    return decoded


def encode(message: object, version: int) -> bytes:
    """Encode a message into one buffer; its records must be in memory."""
    parts: list[Any] = encoder(type(message), version)(message)
    return b"".join(parts)


def _layout(message: Any, version: int) -> Layout:
    if version not in message.VERSIONS:
        first, last = message.VERSIONS.first, message.VERSIONS.last
        raise ProtocolError(f"{message.__name__} has versions {first}-{last}, not {version}")
    return Layout(version, version in message.FLEXIBLE)
