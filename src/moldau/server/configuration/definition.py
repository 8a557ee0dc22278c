"""What a config is: its name, type, default, legal values, and what Moldau does with it.

Values travel and are stored as text; a definition turns text into a typed value and back the way
Kafka's own parser does, and says in Kafka's words what is wrong with a text that is none. The
tables built from definitions are `broker_configs` and `topic_configs`.

Beside Kafka's facts a definition states Moldau's own: a config works, or it is accepted without
effect for a reason, or any value but the default is refused for a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from math import isfinite
from typing import NamedTuple

from moldau.base.errors import ConfigError
from moldau.base.texts import shorten

Value = bool | int | float | str | tuple[str, ...] | None
"""A typed value; None where a config has no value at all."""


class WrongEntry(NamedTuple):
    """One entry of a list, and what is wrong with it."""

    entry: str
    problem: str


Check = Callable[[Value], str | WrongEntry | None]
"""Says what is wrong with a value that has the right type; None if nothing is."""

HIDDEN = "[hidden]"

PROBLEM_LENGTH_MAX = 1000
"""Characters of what is wrong with a value; it may repeat the value."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_COMMA = re.compile(r"\s*,\s*")


class ConfigType(IntEnum):
    """The types, under the codes DescribeConfigs gives them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """How a broker's config may change while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Status(Enum):
    """What Moldau does with a config."""

    WORKS = "works"
    WITHOUT_EFFECT = "accepted without effect"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ConfigDefinition:
    """One config."""

    name: str
    type: ConfigType
    default: Value
    documentation: str
    check: Check | None = None
    update: Update = Update.READ_ONLY
    internal: bool = False
    """Not listed unless somebody set it, as Kafka does with configs made for its own tests."""
    status: Status = Status.WORKS
    reason: str = ""
    """Why it has no effect, or is refused."""

    @property
    def sensitive(self) -> bool:
        """Tell whether its value must never be shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """Return the typed value of a text; ConfigError says in Kafka's words what is wrong."""
        try:
            value = _PARSE[self.type](text.strip())
        except ValueError as error:
            raise ConfigError(self._invalid(text, str(error))) from error
        if not value and self.default is None and isinstance(value, str | tuple):
            return None
        if self.check is not None and (problem := self.check(value)) is not None:
            raise ConfigError(self._refused(text, value, problem))
        if self.status is Status.REFUSED and value != self.default:
            raise ConfigError(self._invalid(text, self.reason))
        return value

    def shown(self, text: str | None) -> str | None:
        """Return the text as it may be shown."""
        return HIDDEN if self.sensitive and text is not None else text

    def _refused(self, text: str, value: Value, problem: str | WrongEntry) -> str:
        """Say what is wrong with a value. Kafka shows it as it understood it: 2 as 2.0."""
        if isinstance(problem, WrongEntry):
            if not problem.entry:
                return f"Configuration '{self.name}' values must not be empty."
            return self._invalid(*problem)
        if isinstance(value, float):
            text = _java_double(value)
        elif isinstance(value, tuple):
            text = f"[{', '.join(value)}]"
        return self._invalid(text, problem)

    def _invalid(self, text: str, problem: str) -> str:
        shown = printable(shorten(self.shown(text) or ""))
        told = printable(shorten(problem, PROBLEM_LENGTH_MAX))
        return f"Invalid value {shown} for configuration {self.name}: {told}"


def format_value(value: Value) -> str | None:
    """Return a typed value as text, in the form Java gives it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value) if isinstance(value, int) else _java_double(value)


def printable(text: str) -> str:
    """Return a text fit for a line of output."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def split_list(text: str) -> tuple[str, ...]:
    """Split a list; the empty text is the empty list, and what is repeated counts once."""
    text = text.strip()
    return tuple(dict.fromkeys(_COMMA.split(text))) if text else ()


# Declaring definitions. What they have in common is said once around a group of them.


def boolean(name: str, default: bool, documentation: str) -> ConfigDefinition:
    """Declare a config that is true or false."""
    return ConfigDefinition(name, ConfigType.BOOLEAN, default, documentation)


def string(
    name: str, default: str | None, documentation: str, check: Check | None = None
) -> ConfigDefinition:
    """Declare a text."""
    return ConfigDefinition(name, ConfigType.STRING, default, documentation, check)


def integer(
    name: str, default: int | None, documentation: str, check: Check | None = None
) -> ConfigDefinition:
    """Declare a number of 32 bits."""
    return ConfigDefinition(name, ConfigType.INT, default, documentation, check)


def short(
    name: str, default: int, documentation: str, check: Check | None = None
) -> ConfigDefinition:
    """Declare a number of 16 bits."""
    return ConfigDefinition(name, ConfigType.SHORT, default, documentation, check)


def long(
    name: str, default: int | None, documentation: str, check: Check | None = None
) -> ConfigDefinition:
    """Declare a number of 64 bits."""
    return ConfigDefinition(name, ConfigType.LONG, default, documentation, check)


def double(
    name: str, default: float, documentation: str, check: Check | None = None
) -> ConfigDefinition:
    """Declare a fraction."""
    return ConfigDefinition(name, ConfigType.DOUBLE, default, documentation, check)


def names(
    name: str, default: tuple[str, ...] | None, documentation: str, check: Check | None = None
) -> ConfigDefinition:
    """Declare a list, written with commas."""
    return ConfigDefinition(name, ConfigType.LIST, default, documentation, check)


def java_class(name: str, default: str | None, documentation: str) -> ConfigDefinition:
    """Declare the name of a Java class."""
    return ConfigDefinition(name, ConfigType.CLASS, default, documentation)


def password(name: str, documentation: str) -> ConfigDefinition:
    """Declare a secret."""
    return ConfigDefinition(name, ConfigType.PASSWORD, None, documentation)


Group = Iterator[ConfigDefinition]


def cluster_wide(*definitions: ConfigDefinition) -> Group:
    """Let these change at run time, for one broker or for all."""
    return (replace(one, update=Update.CLUSTER_WIDE) for one in definitions)


def per_broker(*definitions: ConfigDefinition) -> Group:
    """Let these change at run time, for one broker at a time."""
    return (replace(one, update=Update.PER_BROKER) for one in definitions)


def internal(*definitions: ConfigDefinition) -> Group:
    """Keep these out of descriptions."""
    return (replace(one, internal=True) for one in definitions)


def without_effect(reason: str, *definitions: ConfigDefinition) -> Group:
    """Accept these, and say why nothing comes of them."""
    return (replace(one, status=Status.WITHOUT_EFFECT, reason=reason) for one in definitions)


def refused(reason: str, *definitions: ConfigDefinition) -> Group:
    """Accept nothing but the default, since ignoring another value would deceive the user."""
    return (replace(one, status=Status.REFUSED, reason=reason) for one in definitions)


# Checks


def at_least(minimum: int) -> Check:
    """Ask for a number not below this."""

    def check(value: Value) -> str | None:
        assert isinstance(value, int | float)
        return None if value >= minimum else f"Value must be at least {minimum}"

    return check


def not_zero(value: Value) -> str | None:
    """Ask for a positive number, or a negative one for no limit at all."""
    return None if value else "Value must be unlimited (-1) or at least 1"


def between(minimum: float, maximum: float) -> Check:
    """Ask for a number in a range that includes both ends."""

    def check(value: Value) -> str | None:
        assert isinstance(value, int | float)
        if value < minimum:
            return f"Value must be at least {minimum}"
        return None if value <= maximum else f"Value must be no more than {maximum}"

    return check


def between_or(minimum: int, maximum: int, special: int) -> Check:
    """Ask for a number in a range, or for a special one outside of it."""

    def check(value: Value) -> str | None:
        assert isinstance(value, int)
        if value == special or minimum <= value <= maximum:
            return None
        return f"Value must be between {minimum} and {maximum} or equal to {special}"

    return check


def one_of(*choices: str) -> Check:
    """Ask for one of these texts."""

    def check(value: Value) -> str | None:
        return None if value in choices else f"String must be one of: {', '.join(choices)}"

    return check


def one_of_any_case(*choices: str) -> Check:
    """Ask for one of these texts, in small letters or capitals."""

    def check(value: Value) -> str | None:
        if isinstance(value, str) and value.upper() in choices:
            return None
        return f"String must be one of (case insensitive): {', '.join(choices)}"

    return check


def list_of(*choices: str) -> Check:
    """Ask for a list of these texts."""

    def check(value: Value) -> WrongEntry | None:
        assert isinstance(value, tuple)
        for entry in value:
            if entry not in choices:
                return WrongEntry(entry, f"String must be one of: {', '.join(choices)}")
        return None

    return check


def _parse_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return lowered == "true"


def _parse_integer(kind: ConfigType, bits: int) -> Callable[[str], int]:
    end = 1 << (bits - 1)

    def parse(text: str) -> int:
        if _INTEGER.fullmatch(text) and -end <= (number := int(text)) < end:
            return number
        raise ValueError(f"Not a number of type {kind.name}")

    return parse


def _parse_double(text: str) -> float:
    if _DOUBLE.fullmatch(text) and isfinite(number := float(text)):
        return number
    raise ValueError(f"Not a number of type {ConfigType.DOUBLE.name}")


def _java_double(value: float) -> str:
    """Write a fraction as Java does: with a point, and an exponent when large or small."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    # Imported here: no default is such a number, and a start should not pay for one.
    from decimal import Decimal  # noqa: PLC0415

    decimal = Decimal(repr(value)).normalize()
    mantissa = str(decimal.scaleb(-decimal.adjusted()))
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{decimal.adjusted()}"


_PARSE: dict[ConfigType, Callable[[str], Value]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _parse_integer(ConfigType.INT, 32),
    ConfigType.SHORT: _parse_integer(ConfigType.SHORT, 16),
    ConfigType.LONG: _parse_integer(ConfigType.LONG, 64),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: split_list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}
