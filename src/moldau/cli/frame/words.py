"""Words of a command line, which are any bytes that a shell can give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moldau.base.errors import UserError


def check_texts(given: Iterable[Any]) -> None:
    """Refuse words that are no texts among the values of options, repeated or not."""
    for value in given:
        texts = value if isinstance(value, tuple) else (value,)
        for text in (one for one in texts if isinstance(one, str)):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise UserError(f"{text!r} is no text: expected UTF-8") from None
