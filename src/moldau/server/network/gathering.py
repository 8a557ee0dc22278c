"""One answer made of what several shards say, in slices.

Nearly always every shard answers at once, and then the answer is there when the slices are done.
Where one of them waits for a commit, the rest is done by a coroutine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TypeVar, cast

from moldau.coordination.answers import Answer
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")


def gather(
    answers: Iterable[Answer[A]],
    finish: Callable[[A], Sliced[R]],
    combine: Callable[[list[R]], T],
) -> Sliced[T | Coroutine[None, None, T]]:
    """Ask for answers one after the other, finish each of them, and combine what they come to."""
    parts: list[R | asyncio.Future[A]] = []
    waits = False
    for answer in answers:
        if isinstance(answer, asyncio.Future):
            parts.append(answer)
            waits = True
        else:
            parts.append((yield from finish(answer)))
        yield
    if waits:
        return _combine_later(parts, finish, combine)
    # Not a copy without futures, of which there are none: there may be a hundred thousand parts.
    return combine(cast("list[R]", parts))


async def _combine_later(
    parts: Iterable[R | asyncio.Future[A]],
    finish: Callable[[A], Sliced[R]],
    combine: Callable[[list[R]], T],
) -> T:
    found = []
    for part in parts:
        if isinstance(part, asyncio.Future):
            found.append(await take_turns(finish(await part)))
        else:
            found.append(part)
    return combine(found)


def unchanged(answer: A) -> Sliced[A]:
    """Stand in for `finish` where an answer is what it comes to."""
    yield from ()
    return answer
