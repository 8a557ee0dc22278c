"""What is looked for in messages and stacks, and what is certain of wherever it occurs.

Texts and regular expressions both become expressions of RE2's. Going through all rows with one is
slow, so more is found out about it before: texts that every match contains, which sketches know,
and whether it may be tried on many rows at once. Where an expression has something that this module
does not understand, nothing is certain of it; the search takes longer and finds the same.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""
      \\(?P<escaped>[^\w])
    | (?P<edge>      \\[bBAz] | [$^])
    | (?P<variable>  \\[dDsSwWnrtfva] | \. | \[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])
    | (?P<optional>  [*?]\?? | \{0(?:,\d*)?\}\??)
    | (?P<repeated>  \+\?? | \{[1-9]\d*(?:,\d*)?\}\??)
    | (?P<opened>    \((?!\?) | \(\?: | \(\?P?<\w+>)
    | (?P<closed>    \))
    | (?P<either>    \|)
    | (?P<strange>   [\\\[({])
    | (?P<literal>   .)
    """,
    re.DOTALL | re.VERBOSE,
)
"""The parts of an expression of RE2's; `edge` is what depends on the ends of a text."""


class Probe(NamedTuple):
    """What many texts behind each other are tried with, to tell whether any of them may match."""

    pattern: str
    """An expression of RE2's that matches there if it does in one of the texts."""
    literal: str
    """What every match of it contains as it stands; may be empty."""


class WantedText(NamedTuple):
    """What is to occur in a text."""

    pattern: str
    """The expression of RE2's that says so."""
    probes: tuple[Probe, ...] = ()
    """All of them match if it occurs."""
    certain: tuple[str, ...] = ()
    """What every match contains, but for the case of ASCII letters."""


def wanted_text(text: str, *, ignore_case: bool) -> WantedText:
    """Return what is to be looked for, if a text is."""
    probe = _probe(text, ignore_case=ignore_case)
    return WantedText(probe.pattern, (probe,), tuple(_known(text, ignore_case=ignore_case)))


def wanted_expression(expression: str, *, ignore_case: bool) -> WantedText:
    """Return what is to be looked for, if a regular expression is."""
    pattern = f"(?i){expression}" if ignore_case else expression
    kinds = {kind for kind, _ in _tokens(expression)}
    if "strange" in kinds:
        return WantedText(pattern)
    literals = _literals(expression)
    certain = tuple(literals)
    probes = [Probe(re.escape(text), text) for text in literals]
    if ignore_case:
        certain = tuple(one for text in literals for one in _parts(text, _is_known))
        probes = [
            Probe(f"(?i){re.escape(text)}", max(_parts(text, _is_caseless), key=len))
            for text in literals
        ]
    if "edge" not in kinds:
        longest = max((probe.literal for probe in probes), key=len, default="")
        probes = [Probe(pattern, longest)]
    return WantedText(pattern, tuple(probes), certain)


# Texts


def _probe(text: str, *, ignore_case: bool) -> Probe:
    if not ignore_case:
        return Probe(re.escape(text), text)
    forms = [_forms(one) for one in text]
    pattern = "".join(
        re.escape(one) if len(each) == 1 else f"[{''.join(sorted(each))}]"
        for one, each in zip(text, forms, strict=True)
    )
    caseless = (one if len(each) == 1 else "\n" for one, each in zip(text, forms, strict=True))
    return Probe(pattern, max("".join(caseless).split("\n"), key=len))


def _forms(letter: str) -> set[str]:
    """Return a character in upper and lower case, as far as each is one character."""
    return {one for one in (letter, letter.lower(), letter.upper()) if len(one) == 1}


def _known(text: str, *, ignore_case: bool) -> list[str]:
    """Return the parts of a text whose bytes are known but for the case of ASCII letters."""
    if not ignore_case:
        return [text]
    ascii_only = (one if all(map(str.isascii, _forms(one))) else "\n" for one in text)
    return "".join(ascii_only).split("\n")


# Expressions


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of every part of an expression."""
    for found in _TOKEN.finditer(expression):
        assert found.lastgroup is not None
        yield found.lastgroup, found[found.lastgroup]


def _parts(text: str, is_certain: Callable[[str], bool]) -> list[str]:
    """Return the parts of a text that are made of certain characters only."""
    return "".join(one if is_certain(one) else "\n" for one in text).split("\n")


def _is_known(letter: str) -> bool:
    """Tell whether RE2 takes only an ASCII letter for this one, in either case.

    For k and s it takes the sign of Kelvin and the long s as well.
    """
    return letter.isascii() and letter not in "kKsS\n"


def _is_caseless(letter: str) -> bool:
    return letter.isascii() and not letter.isalpha() and letter != "\n"


def _literals(expression: str) -> list[str]:
    """Return texts that every match contains: those that stand outside of groups and classes."""
    depth = 0
    literal = ""
    found = []
    for kind, text in _tokens(expression):
        if kind == "either" and depth == 0:
            return []
        if kind in ("literal", "escaped") and depth == 0:
            literal += text
            continue
        # What is repeated any number of times, or none, is the last character alone.
        found.append(literal[:-1] if kind == "optional" else literal)
        literal = ""
        depth += (kind == "opened") - (kind == "closed")
    return [*filter(None, [*found, literal])]
