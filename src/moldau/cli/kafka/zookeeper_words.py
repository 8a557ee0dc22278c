"""A line of the shell: its words, the options among them, and paths that cannot be.

The rules and the refusals are those of ZooKeeper's own shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.base.errors import UserError

_WORD: Final = re.compile(r"""\s*([^"']\S*|"[^"]*"|'[^']*')\s*""")
_QUOTED: Final = re.compile(r"""(['"])(.*)\1""", re.DOTALL)
_BAD_CHARACTER: Final = re.compile(r"[\x01-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


class WrongWords(UserError):  # noqa: N818 - it names the thing
    """A line cannot be carried out; the text says why."""


@dataclass(frozen=True, slots=True)
class GivenWords:
    """The words of a command: the options, by their letters, and the others."""

    options: Mapping[str, str]
    """An option without a value has an empty one."""
    others: Sequence[str]


def split_line(line: str) -> list[str]:
    """Take a line apart at blanks; quotes hold a word together."""
    words = _WORD.findall(line)
    return [word[1:-1] if _QUOTED.fullmatch(word) else word for word in words]


def parse_words(words: Sequence[str], flags: str, valued: str) -> GivenWords:
    """Find the options: letters of `flags` stand alone, a value follows those of `valued`."""
    options: dict[str, str] = {}
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            others += rest
            break
        if not word.startswith("-") or word == "-":
            others.append(word)
            continue
        letters = word[1:]
        if letters in valued and len(letters) == 1:
            if not rest:
                raise WrongWords(f"Missing argument for option: {letters}")
            options[letters] = rest.pop(0)
        elif set(letters) <= set(flags):
            options |= dict.fromkeys(letters, "")
        else:
            raise WrongWords(f"Unrecognized option: {word}")
    return GivenWords(options, others)


def check_path(path: str) -> None:
    """Refuse what is not a path of a node."""
    if not path:
        raise WrongWords("Path length must be > 0")
    if not path.startswith("/"):
        raise WrongWords("Path must start with / character")
    if path == "/":
        return
    if path.endswith("/"):
        raise WrongWords("Path must not end with / character")
    reason = _wrong_place(path)
    if reason:
        raise WrongWords(f'Invalid path string "{path}" caused by {reason}')


def _wrong_place(path: str) -> str:
    """Return what is wrong first in a path, and where; nothing if it is right."""
    places = [(bad.start(), "invalid character") for bad in _BAD_CHARACTER.finditer(path)]
    places += [(zero.start(), "null character not allowed") for zero in re.finditer("\0", path)]
    places += [(end.end() - 1, "empty node name specified") for end in re.finditer("//", path)]
    relative = re.finditer(r"/\.{1,2}(?=/|$)", path)
    places += [(end.end() - 1, "relative paths not allowed") for end in relative]
    if not places:
        return ""
    place, reason = min(places)
    return f"{reason} @{place}"
