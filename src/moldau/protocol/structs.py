"""The classes behind declarations: slotted, compared by value, and cheap to declare.

They behave as slotted dataclasses do. They are not dataclasses because making one of those takes
about a millisecond, and hundreds of messages are declared where a broker uses a few dozen: here a
constructor is written when the first instance is made.
"""

from __future__ import annotations

from typing import Any, TypeVar

from moldau.protocol.source import Source

C = TypeVar("C")

_NOT_GIVEN: Any = object()
_LEFT_OUT = frozenset({"__dict__", "__weakref__"})


def make_struct(cls: type[C], defaults: dict[str, Any]) -> type[C]:
    """Make a class with these fields and defaults; a callable default makes a fresh value."""
    namespace = {
        name: value
        for name, value in vars(cls).items()
        if name not in defaults and name not in _LEFT_OUT
    }
    namespace |= {
        "__slots__": tuple(defaults),
        "__match_args__": tuple(defaults),
        "__qualname__": cls.__qualname__,
        "__init__": _write_constructor_first,
        "__eq__": _equal,
        "__hash__": None,
        "__repr__": _represented,
        "_defaults": defaults,
    }
    made: type[C] = type(cls.__name__, cls.__bases__, namespace)
    return made


def _write_constructor_first(self: Any, *values: Any, **named: Any) -> None:
    cls = type(self)
    cls.__init__ = _constructor(cls.__name__, cls._defaults)
    cls.__init__(self, *values, **named)


def _constructor(name: str, defaults: dict[str, Any]) -> Any:
    source = Source()
    source.bind(not_given=_NOT_GIVEN)
    parameters = []
    assignments = []
    for field, default in defaults.items():
        source.fresh(field)
        constant = source.constant("default", default)
        if callable(default):
            parameters.append(f"{field}=not_given")
            assignments.append(f"self.{field} = {constant}() if {field} is not_given else {field}")
        else:
            parameters.append(f"{field}={constant}")
            assignments.append(f"self.{field} = {field}")
    with source.block(f"def __init__(self, {', '.join(parameters)}):" if parameters else
                      "def __init__(self):"):  # fmt: skip
        for assignment in assignments:
            source.line(assignment)
    return source.function("__init__", f"<moldau constructor {name}>")


def _equal(self: Any, other: object) -> Any:
    names: tuple[str, ...] = self.__match_args__
    if other.__class__ is not self.__class__:
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in names)


def _represented(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__match_args__)
    return f"{type(self).__qualname__}({fields})"
