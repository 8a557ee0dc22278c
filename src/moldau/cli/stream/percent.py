r"""Percent formats, as kcat and rpk have them: `%t:%p:%o %k=%v\n`.

    %t topic    %p partition    %o offset    %T timestamp in ms    %d date
    %k key      %v or %s value  %h headers (name=value,...)        %% a percent sign
    %K, %S      sizes of key and value, -1 for null
    %v{hex}, %v{base64}, %k{...}, %d{strftime[%H:%M:%S]}    \n \t \r \0 \\ \xFF

Pure. This reads the notation; what writes and what reads records by it stand beside.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.base.errors import UserError

OUTPUT_LETTERS: Final = "tpokvsTdhKS"
INPUT_LETTERS: Final = "pkvsTh"

DATE: Final = "%Y-%m-%dT%H:%M:%S%z"
"""How a date is written unless the format says it."""

_PIECE: Final = re.compile(
    r"(?P<literal>[^%\\]+)"
    r"|\\x(?P<byte>[0-9a-fA-F]{2})|\\(?P<escape>[ntr0\\])"
    r"|%(?P<percent>%)"
    r"|%(?P<letter>[A-Za-z])(?:\{(?P<form>strftime\[.*?\]|[a-z0-9]+)\}|(?!\{))",
    re.DOTALL,
)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


class Field(NamedTuple):
    """One field of a record in a format."""

    letter: str
    form: str = ""
    """hex, base64, a pattern of strftime, or nothing."""


def parse_percent(text: str, letters: str) -> list[bytes | Field]:
    """Cut a format into fields and what stands between them; UserError says what is wrong."""
    found: list[bytes | Field] = []
    place = 0
    while place < len(text):
        piece = _PIECE.match(text, place)
        if piece is None:
            raise UserError(f"-f {text!r}: {text[place : place + 2]!r} is unknown")
        place = piece.end()
        part = _part(piece, text, letters)
        if isinstance(part, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part)
    return found


def _part(piece: re.Match[str], text: str, letters: str) -> bytes | Field:
    if piece["literal"] is not None:
        return piece["literal"].encode(errors="surrogateescape")
    if piece["byte"] is not None:
        return bytes.fromhex(piece["byte"])
    if piece["escape"] is not None:
        return _ESCAPES[piece["escape"]]
    if piece["percent"] is not None:
        return b"%"
    letter, form = piece["letter"], piece["form"] or ""
    if letter not in letters:
        known = " ".join(f"%{one}" for one in letters)
        raise UserError(f"-f {text!r}: there is no %{letter} here (there is: {known})")
    if form and not _fits(letter, form):
        raise UserError(f"-f {text!r}: %{letter} cannot be written as {form!r}")
    return Field("v" if letter == "s" else letter, form.removeprefix("strftime[").removesuffix("]"))


def _fits(letter: str, form: str) -> bool:
    return form.startswith("strftime[") if letter == "d" else letter in "kvs" and form in WRITERS


def _from_base64(text: bytes) -> bytes:
    return base64.b64decode(text, validate=True)


WRITERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "hex": binascii.hexlify,
    "base64": base64.b64encode,
}
"""How bytes are written as text."""

READERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "hex": binascii.unhexlify,
    "base64": _from_base64,
}
"""How they are read again; ValueError if the text is none."""
