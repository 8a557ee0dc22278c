r"""Regular expressions from clients, matched in time that grows with the text and no faster.

Python's own engine tries one way after the other, and a few characters of a pattern make it try for
years; on a broker that would stop everything. Here a pattern becomes an automaton that follows all
ways at once. What needs memory of the text is therefore refused: back references, look-around,
possessive and atomic parts. The rest is the usual notation, as Java and Python have it:

    abc  .  [a-z_]  [^0-9]  \d \w \s \D \W \S  \. \t \n  ( ) (?: )  |  * + ? {2} {2,} {2,5}  ^ $

A lazy quantifier (`*?`) means the same as the plain one, for a text matches as a whole or not at
all. Classes are those of ASCII, as in Java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.base.errors import MoldauError

LENGTH_MAX: Final = 1024
"""Characters of a pattern: far more than anybody types."""
STATES_MAX: Final = 1000
"""Of the automaton: a counted repetition is written out, and `((a{99}){99}){99}` must not be."""
DEPTH_MAX: Final = 50
"""Of brackets in brackets: the parser calls itself for each."""
STEPS_REMEMBERED: Final = 10_000
"""Steps of the automaton that are looked up and not worked out again: about a megabyte."""

_REPEATS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_SPACES: Final = " \t\n\x0b\f\r"
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b", "0": "\0"}


class InvalidPattern(MoldauError):  # noqa: N818 - it names the thing
    """A pattern that is not a regular expression, or is one of a kind that is not taken."""


class _Symbols(NamedTuple):
    """Which characters a step takes: those in the ranges, or those that are not."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def takes(self, character: str) -> bool:
        inside = any(first <= character <= last for first, last in self.ranges)
        return inside is not self.negated


_LINE_ENDS: Final = "\n\r\x85\u2028\u2029"
_ANY: Final = _Symbols(tuple((end, end) for end in _LINE_ENDS), negated=True)
_CLASSES: Final = {
    "d": (("0", "9"),),
    "w": (("a", "z"), ("A", "Z"), ("0", "9"), ("_", "_")),
    "s": tuple((space, space) for space in _SPACES),
}


class _Edge(NamedTuple):
    """From a state: by one of the symbols to another, or by none to several."""

    symbols: _Symbols | None
    targets: list[int]


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        """Compile it; InvalidPattern says what is wrong with it."""
        parser = _Parser(text)
        self._edges, start, self._end = parser.automaton()
        self._start = self._reached([start])
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, text: str) -> bool:
        """Tell whether the pattern describes the whole text."""
        states = self._start
        steps = self._steps
        for character in text:
            following = steps.get((states, character))
            if following is None:
                following = self._step(states, character)
                if len(steps) >= STEPS_REMEMBERED:
                    steps.clear()
                steps[states, character] = following
            if not following:
                return False
            states = following
        return self._end in states

    def _step(self, states: frozenset[int], character: str) -> frozenset[int]:
        targets: list[int] = []
        for state in states:
            symbols, following = self._edges[state]
            if symbols is not None and symbols.takes(character):
                targets += following
        return self._reached(targets)

    def _reached(self, states: list[int]) -> frozenset[int]:
        """Return these states and those that follow from them without a character."""
        reached: set[int] = set()
        pending = list(states)
        while pending:
            state = pending.pop()
            if state not in reached:
                reached.add(state)
                symbols, targets = self._edges[state]
                if symbols is None:
                    pending += targets
        return frozenset(reached)


class _Part(NamedTuple):
    """A piece of the automaton: where it begins, and the state in which it is done."""

    start: int
    end: int


_Make = Callable[[], _Part]
"""Makes a piece, anew with every call: a repetition needs several."""


class _Parser:
    """Reads a pattern from left to right into an automaton."""

    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise InvalidPattern(f"{len(text)} characters, more than {LENGTH_MAX}")
        self._text = text
        self._position = 0
        self._depth = 0
        self._edges: list[_Edge] = []

    def automaton(self) -> tuple[list[_Edge], int, int]:
        make = self._alternatives()
        if self._position < len(self._text):
            raise self._wrong("a ) that closes nothing")
        part = make()
        return self._edges, part.start, part.end

    # Reading

    def _wrong(self, what: str) -> InvalidPattern:
        return InvalidPattern(f"{what}, near character {self._position} of {self._text!r}")

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise self._wrong("it ends too early")
        self._position += 1
        return character

    def _alternatives(self) -> _Make:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._take()
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else lambda: self._either(branches)

    def _sequence(self) -> _Make:
        items: list[_Make] = []
        while self._peek() not in ("", "|", ")"):
            items.append(self._repeated(self._item()))
        return lambda: self._chain(items)

    def _item(self) -> _Make:
        character = self._take()
        if character == "(":
            return self._group()
        if character in "*+?{":
            raise self._wrong(f"nothing for {character} to repeat")
        if character == "^":
            return self._anchor(allowed=self._position == 1)
        if character == "$":
            return self._anchor(allowed=self._position == len(self._text))
        if character == ".":
            symbols = _ANY
        elif character == "[":
            symbols = self._set()
        elif character == "\\":
            symbols = self._escape()
        else:
            symbols = _Symbols(((character, character),))
        return lambda: self._symbol(symbols)

    def _anchor(self, *, allowed: bool) -> _Make:
        """An anchor where it says nothing, as a whole text is matched; elsewhere it is refused."""
        if not allowed:
            raise self._wrong("an anchor inside of the pattern is not supported")
        return lambda: self._chain([])

    def _group(self) -> _Make:
        if self._peek() == "?":
            self._take()
            if self._take() != ":":
                raise self._wrong("a group of this kind is not supported")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(f"groups in more than {DEPTH_MAX} groups")
        make = self._alternatives()
        self._take()
        self._depth -= 1
        return make

    def _repeated(self, make: _Make) -> _Make:
        quantifier = self._peek()
        if quantifier in _REPEATS:
            self._take()
            least, most = _REPEATS[quantifier]
        elif quantifier == "{":
            self._take()
            least, most = self._counts()
        else:
            return make
        if self._peek() == "?":
            self._take()
        elif self._peek() in ("+", "*", "{"):
            raise self._wrong("a quantifier behind a quantifier is not supported")
        return lambda: self._repeat(make, least, most)

    def _counts(self) -> tuple[int, int | None]:
        text = ""
        while self._peek() != "}":
            text += self._take()
        self._take()
        first, comma, last = text.partition(",")
        numbers = [number for number in (first, last) if number]
        digits = all(number.isascii() and number.isdigit() for number in numbers)
        if not first or not digits or any(int(number) > STATES_MAX for number in numbers):
            raise self._wrong(f"{{{text}}} is not a number of repetitions")
        least = int(first)
        most = int(last) if last else None if comma else least
        if most is not None and most < least:
            raise self._wrong(f"{{{text}}} is not a number of repetitions")
        return least, most

    def _escape(self) -> _Symbols:
        character = self._take()
        ranges = _CLASSES.get(character.lower())
        if ranges is not None:
            return _Symbols(ranges, negated=character.isupper())
        literal = _CONTROLS.get(character, character)
        if literal == character and character.isascii() and character.isalnum():
            raise self._wrong(f"\\{character} is not supported")
        return _Symbols(((literal, literal),))

    def _set(self) -> _Symbols:
        negated = self._peek() == "^"
        if negated:
            self._take()
        ranges: list[tuple[str, str]] = []
        while self._peek() != "]" or not ranges:
            first = self._one_of_set()
            if len(first) == 1 and self._peek() == "-" and self._after() not in ("]", ""):
                self._take()
                last = self._one_of_set()
                if len(last) != 1 or last[0][1] < first[0][0]:
                    raise self._wrong("not a range of characters")
                ranges.append((first[0][0], last[0][1]))
            else:
                ranges += first
        self._take()
        return _Symbols(tuple(ranges), negated)

    def _after(self) -> str:
        return self._text[self._position + 1 : self._position + 2]

    def _one_of_set(self) -> tuple[tuple[str, str], ...]:
        character = self._take()
        if character == "[" or (character == "&" and self._peek() == "&"):
            raise self._wrong("a set of sets is not supported")
        if character != "\\":
            return ((character, character),)
        symbols = self._escape()
        if symbols.negated:
            raise self._wrong("a negated class in a set is not supported")
        return symbols.ranges

    # Building

    def _state(self) -> int:
        if len(self._edges) >= STATES_MAX:
            raise InvalidPattern(f"{self._text!r} is too large")
        self._edges.append(_Edge(None, []))
        return len(self._edges) - 1

    def _join(self, source: int, target: int) -> None:
        self._edges[source].targets.append(target)

    def _symbol(self, symbols: _Symbols) -> _Part:
        start, end = self._state(), self._state()
        self._edges[start] = _Edge(symbols, [end])
        return _Part(start, end)

    def _chain(self, makes: list[_Make]) -> _Part:
        start = end = self._state()
        for make in makes:
            part = make()
            self._join(end, part.start)
            end = part.end
        return _Part(start, end)

    def _either(self, makes: list[_Make]) -> _Part:
        start, end = self._state(), self._state()
        for make in makes:
            part = make()
            self._join(start, part.start)
            self._join(part.end, end)
        return _Part(start, end)

    def _repeat(self, make: _Make, least: int, most: int | None) -> _Part:
        part = self._chain([make] * least)
        end = self._state()
        self._join(part.end, end)
        last = part.end
        if most is None:
            more = make()
            self._join(last, more.start)
            self._join(more.end, end)
            self._join(more.end, more.start)
            return _Part(part.start, end)
        for _ in range(most - least):
            more = make()
            self._join(last, more.start)
            self._join(more.end, end)
            last = more.end
        return _Part(part.start, end)
