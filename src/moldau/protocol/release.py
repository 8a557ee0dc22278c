"""Frees a large message a few elements at a time.

When the last reference to a message goes, all its elements go with it: of a hundred thousand that
takes 30 ms, in which an event loop does nothing else. So their owner hands them over here instead.
Elements that somebody else still holds stay as they are.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from typing import Any

from moldau.base.limits import ELEMENTS_PER_STEP
from moldau.protocol.fields import Kind


def release_in_slices(held: list[Any]) -> Generator[None, None, None]:
    """Free the messages in this list, all of one class, and what they consist of.

    Nobody else should hold the messages: their elements would only be freed with them.
    """
    lists = [held]
    while lists:
        items = lists[-1]
        if not items:
            lists.pop()
            continue
        declared: Any = type(items[-1])
        few = items[-ELEMENTS_PER_STEP:]
        del items[-ELEMENTS_PER_STEP:]
        # These arrays stay for a while longer than the elements they belong to.
        for name, shortest in _arrays(declared):
            inners = [getattr(element, name) for element in few]
            lists += [inner[:] for inner in inners if inner and len(inner) >= shortest]
            del inners
        for name in _structs_with_arrays(declared):
            inners = [getattr(element, name) for element in few]
            lists += [[inner] for inner in inners if inner is not None]
            del inners
        del few
        yield


@cache
def _structs_with_arrays(declared: Any) -> tuple[str, ...]:
    """The structs of a struct that are to be taken apart themselves."""
    return tuple(
        field.name
        for field in getattr(declared, "FIELDS", ())
        if field.kind is Kind.STRUCT
        and (_arrays(field.struct) or _structs_with_arrays(field.struct))
    )


@cache
def _arrays(declared: Any) -> tuple[tuple[str, int], ...]:
    """The arrays of a struct, and from which length on they are taken apart; a text has none.

    A short one is freed with its struct, unless its elements have arrays themselves.
    """
    return tuple(
        (field.name, 1 if _arrays(field.element.struct) else ELEMENTS_PER_STEP)
        for field in getattr(declared, "FIELDS", ())
        if field.kind is Kind.ARRAY
    )
