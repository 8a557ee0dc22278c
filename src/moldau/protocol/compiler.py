"""Codecs for declared messages: made on first use, kept for good.

A codec is one function for one (message, version, direction); `decoding` and `encoding` write it,
this module keeps it. Nothing is compiled at import: a broker meets a few dozen of the seven
hundred possible pairs, and `moldau --help` none.

The two hot calls, `decoder` and `encoder`, hand out the function itself, for callers to keep;
`decode` and `encode` are the convenient forms for stored records, rare paths and tests.

What a client decides the size of has two more forms: `decode_in_slices` and `encode_in_slices` are
generators that yield where an event loop may do something else, and `short_encoder` gives up before
it takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from typing import Any, TypeVar

from moldau.base.errors import ProtocolError
from moldau.base.files import Buffer
from moldau.base.network import Part
from moldau.protocol.decoding import compile_decoder
from moldau.protocol.encoding import EncoderForm, compile_encoder
from moldau.protocol.layout import Layout

M = TypeVar("M")

Decoder = Callable[[memoryview, int], tuple[M, int]]
"""Takes one whole frame and where the message begins in it; gives the message and where it ends."""

Encoder = Callable[[M], list[Part]]
"""Takes a message; gives its parts: one `bytes`, or more where records lie between."""

_decoders: dict[tuple[type[Any], int], Decoder[Any]] = {}
_encoders: dict[tuple[type[Any], int], Encoder[Any]] = {}
_short_encoders: dict[tuple[type[Any], int], Callable[[Any], list[Part] | None]] = {}


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


def decode_in_slices(
    message: type[M], version: int, view: memoryview, position: int, elements_max: int
) -> Generator[None, None, M]:
    """Decode a large message; it yields where it may be paused.

    More elements than `elements_max` in all arrays together raise ProtocolError before anything is
    made of them. The view need not outlive the first yield: what is read then is a copy.
    """
    declared: Any = message
    decoding = _sliced_decoder(declared, version)
    if _layout(message, version).carries_records(message):
        # Records are slices of the view. Most of these messages are read in one step, in place.
        in_place = decoding(view, position, elements_max)
        try:
            next(in_place)
        except StopIteration as stop:
            decoded: tuple[M, int] = stop.value
            return decoded[0]
        in_place.close()
        view = memoryview(bytes(view))
    work = decoding(view, position, elements_max)
    del view
    decoded = yield from work
    return decoded[0]


def short_encoder(message: type[M], version: int) -> Callable[[M], list[Part] | None]:
    """The encoder that returns None when a message has too many elements to be encoded in one go.

    `encode_in_slices` is for those.
    """
    found = _short_encoders.get((message, version))
    if found is None:
        found = compile_encoder(message, _layout(message, version), EncoderForm.SHORT)
        _short_encoders[message, version] = found
    return found


def encode_in_slices(message: object, version: int) -> Generator[None, None, list[Part]]:
    """Encode a message of any size into its parts; it yields where it may be paused."""
    declared: Any = type(message)
    made: Generator[None, None, list[Part]] = _sliced_encoder(declared, version)(message)
    return made


@cache
def _sliced_decoder(message: Any, version: int) -> Callable[..., Any]:
    return compile_decoder(message, _layout(message, version), sliced=True)


@cache
def _sliced_encoder(message: Any, version: int) -> Callable[..., Any]:
    return compile_encoder(message, _layout(message, version), EncoderForm.SLICED)


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
