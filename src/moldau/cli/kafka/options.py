"""Options the way Kafka's commands read them, and the usage text they print.

Kafka's commands share a parser with habits of its own: `--name value` and `--name=value`, one dash
as good as two, a name cut short as long as it stays the only one, words that belong to no option
passed over in silence. Scripts depend on all of it. What is wrong is said in that parser's words,
followed by the usage, on standard error, and the exit status is 1.

Knows nothing of brokers; a command declares its options as data and asks what was given.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.base.errors import UserError

NAME_WIDTH: Final = 40
TEXT_WIDTH: Final = 40
"""The two columns of the usage, for a terminal of eighty characters."""


class OptionError(UserError):
    """The command line cannot be; `usage` is what to print after the line that says why."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True, slots=True)
class Option:
    """One option: what it is called, and what follows it."""

    name: str
    about: str
    argument: str | None = None
    """What follows it, as the usage names it; None if nothing does."""
    is_number: bool = False
    argument_optional: bool = False
    takes_many: bool = False
    """Whether every word up to the next option belongs to it."""
    default: str | None = None
    former: tuple[str, ...] = ()
    """Names it had in other releases: understood, and not shown."""

    @property
    def shown(self) -> str:
        """The option as the usage shows it."""
        if self.argument is None:
            return f"--{self.name}"
        kind = "Integer" if self.is_number else "String"
        what = f"{kind}: {self.argument}" if self.argument else kind
        return f"--{self.name} [{what}]" if self.argument_optional else f"--{self.name} <{what}>"


def flag(name: str, about: str, *, former: Sequence[str] = ()) -> Option:
    """Declare an option that nothing follows."""
    return Option(name, about, former=tuple(former))


def text(
    name: str,
    argument: str,
    about: str,
    *,
    default: str | None = None,
    former: Sequence[str] = (),
) -> Option:
    """Declare an option that a text follows."""
    return Option(name, about, argument, default=default, former=tuple(former))


def number(
    name: str,
    argument: str,
    about: str,
    *,
    default: int | None = None,
    former: Sequence[str] = (),
) -> Option:
    """Declare an option that a whole number follows."""
    given = None if default is None else str(default)
    return Option(name, about, argument, is_number=True, default=given, former=tuple(former))


HELP: Final = flag("help", "Print usage information.")
VERSION: Final = flag("version", "Display Kafka version.")


class Options:
    """What a command line gave, asked by the names of options."""

    def __init__(
        self, parser: OptionParser, given: Mapping[str, list[str]], words: Sequence[str]
    ) -> None:
        self._parser = parser
        self._given = given
        self.words = words
        """What belongs to no option, in order."""

    def knows(self, name: str) -> bool:
        """Tell whether the command has such an option."""
        return self._parser.knows(name)

    def has(self, name: str) -> bool:
        """Tell whether the option was given; a default does not count."""
        return name in self._given

    def value(self, name: str) -> str | None:
        """Return the option's one argument, or its default."""
        values = self.values(name)
        if len(values) > 1:
            raise self.error(
                f"Found multiple arguments for option {name}, but you asked for only one"
            )
        return values[0] if values else None

    def text(self, name: str) -> str:
        """Return the argument of an option that is required or has a default."""
        value = self.value(name)
        if value is None:
            raise self.error(f'Missing required argument "[{name}]"')
        return value

    def values(self, name: str) -> list[str]:
        """Return every argument the option was given, or its default."""
        values = self._given.get(name, [])
        default = self._parser.option(name).default
        return [default] if not values and default is not None else values

    def number(self, name: str) -> int | None:
        """Return the option's argument as a number, or its default.

        Kafka's parser too looks at a number only when it is asked for.
        """
        value = self.value(name)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise self.error(f"Cannot parse argument '{value}' of option {name}") from None

    # What every command checks

    def error(self, message: str) -> OptionError:
        """Return an error that shows the usage."""
        return OptionError(message, self._parser.usage())

    def require(self, *names: str) -> None:
        """Refuse a command line without these."""
        for name in names:
            if not self.has(name):
                raise self.error(f'Missing required argument "[{name}]"')

    def exclude(self, used: str, *others: str) -> None:
        """Refuse one option together with others."""
        for other in others:
            if self.has(used) and self.has(other):
                raise self.error(f'Option "[{used}]" can\'t be used with option "[{other}]"')

    def require_one_of(self, *names: str) -> str:
        """Refuse a command line without exactly one of these; return which it is."""
        found = [name for name in names if self.has(name)]
        if len(found) != 1:
            listed = ", ".join(f"[{name}]" for name in names)
            raise self.error(f"Exactly one of the following arguments is required: {listed}")
        return found[0]


class OptionParser:
    """The options of one command."""

    def __init__(self, options: Iterable[Option]) -> None:
        self._options = {one.name: one for one in (*options, HELP, VERSION)}
        self._former = {former: one.name for one in self._options.values() for former in one.former}

    def knows(self, name: str) -> bool:
        """Tell whether there is such an option."""
        return name in self._options

    def option(self, name: str) -> Option:
        """Return the declaration of an option."""
        return self._options[name]

    def parse(self, arguments: Sequence[str]) -> Options:
        """Read a command line; OptionError says what cannot be read."""
        given: dict[str, list[str]] = {}
        free: list[str] = []
        words = list(arguments)
        while words:
            word = words.pop(0)
            if word == "--":
                break
            if not _is_option(word):
                free.append(word)
                continue
            name, has_value, value = word.lstrip("-").partition("=")
            option = self._named(name)
            values = given.setdefault(option.name, [])
            if option.argument is None:
                continue
            if not has_value:
                if option.argument_optional and (not words or _is_option(words[0])):
                    continue
                if not words:
                    raise self._error(f"Option {option.name} requires an argument")
                value = words.pop(0)
            values.append(value)
            while option.takes_many and words and not _is_option(words[0]):
                values.append(words.pop(0))
        return Options(self, given, free + words)

    def usage(self) -> str:
        """Return the options and what they mean, in two columns."""
        lines = [
            f"{'Option':<{NAME_WIDTH}} {'Description':<{TEXT_WIDTH}}".rstrip(),
            f"{'------':<{NAME_WIDTH}} {'-----------':<{TEXT_WIDTH}}".rstrip(),
        ]
        for _, option in sorted(self._options.items()):
            lines += _in_columns(option)
        return "\n".join(lines) + "\n"

    def _named(self, given: str) -> Option:
        name = given if given in self._options else self._former.get(given)
        if name is not None:
            return self._options[name]
        for names in (self._options, self._former):
            found = {self._former.get(one, one) for one in names if one.startswith(given)}
            if len(found) == 1 and given:
                return self._options[found.pop()]
        raise self._error(f"{given} is not a recognized option")

    def _error(self, message: str) -> OptionError:
        return OptionError(message, self.usage())


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _in_columns(option: Option) -> list[str]:
    about = (
        option.about if option.default is None else f"{option.about} (default: {option.default})"
    )
    left = textwrap.wrap(option.shown, NAME_WIDTH, subsequent_indent="  ")
    right = textwrap.wrap(about, TEXT_WIDTH, subsequent_indent="  ")
    count = max(len(left), len(right))
    left += [""] * (count - len(left))
    right += [""] * (count - len(right))
    return [f"{a:<{NAME_WIDTH}} {b}".rstrip() for a, b in zip(left, right, strict=True)]
