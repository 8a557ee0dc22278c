"""Named tuples that are quick to declare.

`typing.NamedTuple` compiles every annotation when the class is made, only to see whether it could
be a type, and that is more than half of what declaring one costs. The client has dozens of them,
and whoever imports it waits. This one leaves the annotations to the type checker, for which it is
`typing.NamedTuple` itself; what it makes is a `collections.namedtuple` all the same. A generic one
has to be typing's own.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Declaration(type):
        """Makes a named tuple of a class body."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.get("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024 - typing's is for the checker
            for key, value in body.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Declaration):
        """Is what a named tuple names as its base."""
