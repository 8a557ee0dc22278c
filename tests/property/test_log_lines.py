"""Whatever a line holds, it is read without an error and nothing it says is lost."""

from __future__ import annotations

import json
import re
from datetime import UTC

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moldau.spark.pipelines.logs.forms.line import put
from moldau.spark.pipelines.logs.levels import LEVELS
from moldau.spark.pipelines.logs.parsing import Origin, Rules, parse

RULES = Rules(UTC, 600_000_000, 1 << 20)
NOW = 1_794_744_000_000_000

PIECES = st.sampled_from([
    "2026-11-15 12:00:00,123", "2026-11-15T12:00:00Z", "[", "]", "{", "}", '"', "\\", " ", " - ",
    ": ", "=", "INFO", "ERROR", "error", "main", "com.example.Shop", "\n", "\tat a.b", "Traceback",
    "127.0.0.1", "[15/Nov/2026:12:00:00 +0000]", '"GET / HTTP/1.1"', "200", "Nov 15 12:00:00",
    "<34>", "1 ", "(", ")", "msg=", "level=warn", '{"msg":"x"}', "\x00", "é", "\ud7ff",
    "12:00:00.123 ", "[Sun Nov 15 12:00:00 2026] ", "[core:", "[pid 7] ", "E1115 12:00:00.5 7 ",
    "a.go:7] ", "| ",
])  # fmt: skip


def written_list(values):
    return f"[{','.join(values)}]"


def objects(values):
    """Objects as lines have them: a name may be empty, half a character, and there twice."""
    names = st.sampled_from(['""', '"a"', '"a.2"', r'"\ud800"', r'"\udfff"', '"time"', '"level"',
                             '"msg"', '"host"', '"app"', '"stack"'])  # fmt: skip
    members = st.lists(st.builds("{}:{}".format, names, values), max_size=5)
    return members.map(lambda told: f"{{{','.join(told)}}}")


VALUES = st.recursive(
    st.one_of(
        st.sampled_from([
            "NaN", "Infinity", "-Infinity", "true", "false", "null", "0", "-0", "1.50", "1e999",
            "9" * 5000, '""', r'"\ud800"', r'"\ude00\ud83d"', r'"E: x\n\tat a.b"', '"INFO"',
            '"2026-11-15T12:00:00Z"',
        ]),
        st.text().map(json.dumps),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4).map(written_list), objects(inner)),
)  # fmt: skip
LINES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(PIECES, max_size=12).map("".join),
    st.builds("{}{}".format, PIECES, st.text(st.characters(exclude_categories=["Cs"]))),
    objects(VALUES),
)

_WORD = re.compile(r"[^\W\d_]{2,}")
_KNOWN = {"time", "timestamp", "level", "severity", "lvl", "msg", "message", "log", "ts", "date"}


def read(text):
    return parse(text, Origin("h", "/p/s.log"), NOW, NOW, RULES)


@settings(max_examples=400)
@given(LINES)
@example('{"a":"\\ud800"}')
@example("[" * 100_000)
@example('{"a":' * 3000)
@example('{"a":' + "9" * 5000 + "}")
def test_any_line_becomes_a_row_that_says_all_it_said(text):
    line = read(text)
    assert line.level in LEVELS
    parts = [line.message, line.stack or "", line.host, line.service, line.level]
    parts += [*line.fields, *line.fields.values()]
    "".join(parts).encode()  # what UTF-8 cannot hold would stop a table
    said = "\n".join(parts).lower() + " sun nov pid client utc gmt"
    if line.format in ("json", "logfmt"):
        return  # names and escapes of their own; the tests below say that nothing is lost
    levels = {"trace", "finest", "finer", "debug", "fine", "config", "info", "notice", "warn",
              "warning", "error", "severe", "critical", "fatal", "alert", "emerg", "panic", "crit",
              "err", "in"}  # fmt: skip
    for word in _WORD.findall(text.lower()):
        assert word in said or word in levels, word


@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"b":', "}")])
def test_a_line_is_read_however_deep_it_is_nested(left, right):
    """Reading and writing give up at different depths; the line is kept whatever gives up."""
    for depth in range(1, 1200):
        line = read(f'{{"a":{left * depth}"end"{right * depth}}}')
        assert "end" in line.message
        assert line.format == "json" or line.fields == {}


NAMES = st.text("abcdefgxyz_", min_size=1, max_size=6).filter(lambda name: name not in _KNOWN)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(NAMES, st.one_of(TEXTS, st.integers(), st.booleans()), max_size=6), TEXTS)
def test_every_member_of_an_object_is_kept(members, message):
    line = read(json.dumps({**members, "message": message, "level": "warn"}))
    assert (line.format, line.level) == ("json", "WARN")
    if message:
        assert line.message == message
    taken = {*line.fields.values(), line.message, line.host, line.service, line.stack}
    for value in members.values():
        assert (str(value).lower() if isinstance(value, bool) else str(value)) in taken


@given(st.dictionaries(NAMES, TEXTS, min_size=2, max_size=6))
def test_every_pair_of_logfmt_is_kept(pairs):
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in pairs.items()
    }
    line = read(" ".join(f'{name}="{value}"' for name, value in escaped.items()))
    assert line.format == "logfmt"
    taken = {*line.fields.values(), line.message, line.host, line.service, line.stack}
    assert set(pairs.values()) <= taken


@given(st.lists(st.tuples(st.sampled_from(["a", "a.2", "a.3", "a.2.2", "b"]), TEXTS), max_size=8))
def test_fields_of_one_name_are_all_kept(pairs):
    fields: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for name, value in pairs:
        put(fields, name, value, numbers)
    assert sorted(fields.values()) == sorted(value for _, value in pairs)
