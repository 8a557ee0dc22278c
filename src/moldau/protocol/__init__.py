"""The wire protocol: declarations of messages, the codecs made from them, framing, errors.

No I/O and no state of a broker here: bytes in, messages out, and back. Where to look:

- `messages/` what every API says, version by version, in the language of `fields`;
- `compiler` the codec of a message, written by `decoding` and `encoding` on first use;
- `registry` an API by its key, and requests and responses with their headers;
- `framing` where one frame ends and the next begins;
- `errors` the codes a client is answered with.
"""

from __future__ import annotations

from moldau.protocol.compiler import decode, decoder, encode, encoder
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.wire import EncodeError, parts_size

__all__ = [
    "ApiError",
    "EncodeError",
    "ErrorCode",
    "decode",
    "decoder",
    "encode",
    "encoder",
    "parts_size",
]
