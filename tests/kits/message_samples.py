"""Random instances of declared messages, drawn from their declarations.

The source of chance is an argument, so that a seed is enough to see a failing instance again.
"""

from __future__ import annotations

import copy
import importlib
import pkgutil
import random
from typing import Any

import moldau.protocol.messages
from moldau.protocol.fields import NEVER, Field, Kind

LENGTHS = (0, 1, 2, 5, 125, 126, 127, 128, 300)
"""Around one-byte varints and beyond; the empty one in between."""

COUNTS = (0, 1, 2, 3)

LONG_COUNTS = (0, 1, 2, 16, 17, 127, 130)
"""For arrays of scalars, which are packed another way when they are long."""

RANGES = {
    Kind.INT8: (-(2**7), 2**7 - 1),
    Kind.INT16: (-(2**15), 2**15 - 1),
    Kind.UINT16: (0, 2**16 - 1),
    Kind.INT32: (-(2**31), 2**31 - 1),
    Kind.UINT32: (0, 2**32 - 1),
    Kind.INT64: (-(2**63), 2**63 - 1),
}

ALPHABET = "abcXYZ019.-_ \0é€\U0001f30a"


def declared_messages() -> list[type[Any]]:
    """Every class declared with `@message`, by name: requests, responses and stored records."""
    found = {}
    package = moldau.protocol.messages
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and hasattr(value, "VERSIONS"):
                found[value.__name__] = value
    return [found[name] for name in sorted(found)]


def random_message(cls: Any, chance: random.Random) -> Any:
    """Fill every field, whatever the version; null where any version allows it."""
    return cls(**{field.name: _random_value(field, chance) for field in cls.FIELDS})


def _random_value(field: Field, chance: random.Random) -> Any:
    if (field.nullable != NEVER or field.kind is Kind.RECORDS) and chance.random() < 0.25:
        return None
    match field.kind:
        case Kind.BOOL:
            return chance.random() < 0.5
        case Kind.FLOAT64:
            return chance.choice([0.0, -1.5, 1e300, float("inf"), 2.0**-1074])
        case Kind.UUID:
            return chance.getrandbits(128).to_bytes(16, "big")
        case Kind.STRING:
            return "".join(chance.choices(ALPHABET, k=chance.choice(LENGTHS)))
        case Kind.BYTES | Kind.RECORDS:
            size = chance.choice(LENGTHS)
            return chance.getrandbits(8 * size or 1).to_bytes(size or 1, "big")[:size]
        case Kind.STRUCT:
            return random_message(field.struct, chance)
        case Kind.ARRAY:
            return _random_array(field.element, chance)
        case _:
            low, high = RANGES[field.kind]
            return chance.choice([low, -1 if low else 1, 0, 1, high, chance.randint(low, high)])


def _random_array(element: Any, chance: random.Random) -> list[Any]:
    if element.kind in RANGES:
        count = chance.choice(LONG_COUNTS)
        low, high = RANGES[element.kind]
        return [chance.choice((low, 0, high))] * count
    return [_random_value(element, chance) for _ in range(chance.choice(COUNTS))]


def fitted(message: Any, version: int) -> Any:
    """A copy in which nothing is null where this version allows no null."""
    copied = copy.copy(message)
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if version in field.versions:
            setattr(copied, field.name, _fitted_value(field, value, version))
    return copied


def _fitted_value(field: Field, value: Any, version: int) -> Any:
    if value is None:
        allowed = version in field.nullable or field.kind is Kind.RECORDS
        return None if allowed else _zero(field, version)
    if field.kind is Kind.STRUCT:
        return fitted(value, version)
    if field.kind is Kind.ARRAY and field.element is not None:
        return [_fitted_value(field.element, item, version) for item in value]
    return value


def _zero(field: Field, version: int) -> Any:
    if field.struct is not None:
        return fitted(field.struct(), version)
    return {Kind.STRING: "", Kind.BYTES: b"", Kind.ARRAY: []}[field.kind]


def reset(message: Any, version: int) -> Any:
    """A copy in which every field that this version does not have is its default again."""
    copied = copy.copy(message)
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if version not in field.versions:
            value = field.default() if callable(field.default) else field.default
        elif field.kind is Kind.STRUCT and value is not None:
            value = reset(value, version)
        elif field.kind is Kind.ARRAY and value and field.element.struct is not None:
            value = [reset(item, version) for item in value]
        setattr(copied, field.name, value)
    return copied
