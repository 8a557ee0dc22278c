"""How large one answer may become.

An answer that describes what the broker holds is as large as that, whatever its request's size. It
is measured while it is built, roughly, and what no longer fits is refused element by element: a
client can ask for the rest in another request.
"""

from __future__ import annotations

from moldau.base.limits import ANSWER_BYTES
from moldau.protocol.errors import ApiError, ErrorCode


class AnswerRoom:
    """What is left of one answer's bytes."""

    __slots__ = ("_left", "_limit")

    def __init__(self, limit: int = ANSWER_BYTES) -> None:
        self._limit = self._left = limit

    def take(self, size: int) -> None:
        """Make room for an element of about this size; ApiError, and nothing taken, if it is none.

        POLICY_VIOLATION is what Kafka says of a request that asks for too much at once. It is not
        retriable, so that no client asks for the same again.
        """
        if size > self._left:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"The answer would have more than {self._limit} bytes; ask for fewer at a time.",
            )
        self._left -= size
