"""Searches find what going through all rows finds, and read little for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kits.cli_kit import moldau
from kits.log_tables import NOON_US, arrow, expected, log_table, row
from moldau.base.errors import UserError
from moldau.spark.pipelines.logs import layout
from moldau.spark.pipelines.logs.levels import LEVELS, at_least
from moldau.spark.pipelines.logs.search import Follower, Look, Question, search
from moldau.spark.pipelines.logs.search.groups import Sieve
from moldau.spark.pipelines.logs.sketches import sketch_place

DAY_US = 86_400_000_000

WORDS = ["plum", "Pear", "fig (ripe)", "naïve", "x", "\n", "%", "a.b", "[1]", "\\d", "É", "u-47110",
         "order1234567 u-471105", "0f47110fee"]  # fmt: skip
MESSAGES = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
ROWS = st.builds(
    lambda **given: given,
    time_us=st.integers(NOON_US - 2 * DAY_US, NOON_US),
    level=st.sampled_from(LEVELS),
    host=st.sampled_from(["web-1", "web-2", "db-1"]),
    service=st.sampled_from(["shop", "cart", None]),
    message=MESSAGES,
    stack=st.one_of(st.none(), MESSAGES),
    fields=st.dictionaries(
        st.sampled_from(["user", "status", "host", "user=7", "="]),
        st.sampled_from(["7", "503", "", None, "web-1", "7=503"]),
    ),
    partition=st.integers(0, 1),
)


def few(choices):
    """Seldom more than one: what all conditions hold for would be nothing."""
    return st.one_of(st.just(()), st.lists(st.sampled_from(choices), max_size=2).map(tuple))


QUESTIONS = st.builds(
    Question,
    since_us=st.one_of(st.none(), st.integers(NOON_US - 2 * DAY_US, NOON_US)),
    until_us=st.one_of(st.none(), st.integers(NOON_US - 2 * DAY_US, NOON_US)),
    levels=st.one_of(st.none(), st.sampled_from(LEVELS).map(lambda one: frozenset(at_least(one)))),
    values=st.dictionaries(
        st.sampled_from(["host", "service"]), st.sampled_from(["web-1", "db-1", "shop", "nobody"])
    ),
    texts=few(
        [
            *WORDS,
            "plum Pear",
            "PLUM",
            "é",
            "no such text",
            "lum",
            "47110",
            "-4711",
            "-47110 ",
            "U-47110",
            " order12345",
        ]
    ),
    expressions=few(["p[lx]um", "^x", "ear$", r"\bfig|(x|%)$", "PEAR.*plum", "(?s)x.*%", r"\d"]),
    without=few([*WORDS, "lum", "XYZ"]),
    ignore_case=st.booleans(),
    fields=st.dictionaries(
        st.sampled_from(["user", "status", "host", "none", "user=7", "="]),
        st.sampled_from(["7", "", "web-1", "503", "7=503"]),
    ),
    after_batch=st.one_of(st.none(), st.integers(0, 12)),
    limit=st.integers(1, 12),
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(ROWS, min_size=1, max_size=30),
    st.sampled_from([(4, 1), (40, 4)]),
    st.lists(QUESTIONS, min_size=6, max_size=6),
)
def test_a_search_finds_what_going_through_all_rows_finds(
    tmp_path_factory, monkeypatch, given_rows, sizes, questions
):
    """Twelve appends: some files are merged and have sketches, others are as they were written."""
    group_rows, repeated = sizes
    monkeypatch.setattr(layout, "GROUP_ROWS", group_rows)
    monkeypatch.setattr(layout, "SKETCHED_ROWS_MIN", 1)
    folder = tmp_path_factory.mktemp("table")
    rows = [
        row(offset, **one, batch=offset % 12) for offset, one in enumerate(given_rows * repeated)
    ]
    table = log_table(folder)
    for number, batch in enumerate(sorted({one["batch"] for one in rows})):
        table.append(arrow(one for one in rows if one["batch"] == batch), number)

    for question in questions:
        found = search(folder, question)
        assert [one["offset"] for one in found.rows] == expected(rows, question), question


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return a table of 40 row groups with sketches, rows in the order of time; not to change."""
    folder = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(layout, "GROUP_ROWS", 50)
        patched.setattr(layout, "SKETCHED_ROWS_MIN", 1)
        make(log_table(folder / "logs"))
    return folder / "logs"


@pytest.fixture
def own_table(table, tmp_path):
    """Return such a table that may be changed."""
    return shutil.copytree(table, tmp_path / "logs")


def make(made):
    for number in range(10):
        rows = [
            row(
                offset,
                message=f"request {offset} of user {offset % 7} was accepted",
                fields={
                    "request_id": f"id-{offset}",
                    "shelf": f"{offset % 20}",
                    "side": f"{offset % 2}",
                    **({"host": "web-1"} if offset % 25 == 0 else {}),
                },
                host=f"web-{offset % 3}",
                batch=number,
            )
            for offset in range(number * 200, number * 200 + 200)
        ]
        rows[7] = {**rows[7], "message": f"a quincunx in batch {number}"}
        made.append(arrow(rows), number)
    for number in range(10, 20):  # without rows, so that those of the last append are merged too
        made.append(arrow([]), number)


@pytest.mark.parametrize(
    ("question", "read_max"),
    [
        (Question(limit=10), 3),
        (Question(since_us=NOON_US + 100_000, until_us=NOON_US + 120_000), 2),
        (Question(texts=("nowhere to be found",)), 0),
        (Question(texts=("NOWHERE to be found",), ignore_case=True), 0),
        (Question(texts=("quincunx",)), 12),
        (Question(texts=("request", "quincunx")), 12),
        (Question(expressions=(r"quincunx \w+ batch",)), 12),
        (Question(expressions=("^a quincunx in nowhere",)), 0),
        (Question(fields={"request_id": "id-777"}), 5),
        (Question(fields={"request_id": "id-77777"}), 3),
        (Question(fields={"shelf": "4", "side": "1"}), 0),
        (Question(fields={"shelf": "4", "side": "0"}, limit=1), 3),
        (Question(fields={"shelf": "4", "request_id": "id-24"}), 2),
        (Question(fields={"side": "0"}, values={"host": "web-1"}, texts=(" 16 of",)), 3),
        (Question(texts=("vwx",)), 0),
        (Question(texts=("Q", "VW"), ignore_case=True), 0),
        (Question(values={"host": "web-1"}, limit=1000), 40),  # not those of a field's name
        (Question(values={"host": "web-9"}), 0),
        (Question(values={"host": "web-11"}), 3),
        (Question(texts=("request 1999 of",), limit=1), 3),
    ],
)
def test_row_groups_that_cannot_match_are_not_read(table, question, read_max, monkeypatch):
    answer = search(table, question)
    assert answer.effort.groups == 40
    assert answer.effort.read <= read_max
    monkeypatch.setattr(Sieve, "_sketches", lambda *_: None)
    assert search(table, question).rows == answer.rows


@pytest.mark.parametrize("every", [2, 50, 499])
def test_a_text_of_few_or_many_rows_of_a_row_group_is_found_in_each(tmp_path, every):
    """In few, rows are found by where the text lies; in many, each is looked at."""
    rows = [row(offset, message="plum" if offset % every else "pear") for offset in range(500)]
    log_table(tmp_path).append(arrow(rows), 0)
    for question in (
        Question(texts=("pear",), limit=1000),
        Question(texts=("EAR",), without=("LU",), ignore_case=True, limit=1000),
        Question(expressions=("^p[ea]+r$",), limit=1000),
    ):
        found = [one["offset"] for one in search(tmp_path, question).rows]
        assert found == [*range(0, 500, every)][::-1]


def test_sketches_only_save_time(own_table):
    question = Question(texts=("quincunx",), fields={})
    with_sketches = search(own_table, question)
    for path in own_table.glob("*/*/_*.sketch"):
        path.unlink()
    without = search(own_table, question)
    assert without.rows == with_sketches.rows
    assert len(without.rows) == 10
    assert without.effort.read > with_sketches.effort.read


def test_a_sketch_that_is_cut_is_not_believed(own_table):
    for path in own_table.glob("*/*/_*.sketch"):
        path.write_bytes(path.read_bytes()[:-1])
    assert len(search(own_table, Question(texts=("quincunx",))).rows) == 10


def test_a_table_without_appends_has_no_rows(tmp_path):
    assert search(tmp_path, Question()).rows == []


def test_only_files_that_the_log_names_are_read(own_table):
    committed = next(own_table.glob("*/*/part-*.parquet"))
    committed.with_name("part-0000000010-0.parquet").write_bytes(committed.read_bytes())
    rows = search(own_table, Question(limit=10_000)).rows
    assert len(rows) == 2000
    committed.unlink()
    with pytest.raises(UserError, match="is gone, though the log"):
        search(own_table, Question())


@pytest.mark.parametrize("damaged", [slice(4, -1000), slice(-600, -8)], ids=["pages", "footer"])
def test_a_damaged_file_is_named(own_table, damaged):
    for path in own_table.glob("*/*/part-*.parquet"):
        data = bytearray(path.read_bytes())
        data[damaged] = b"\xff" * len(data[damaged])
        path.write_bytes(data)
    with pytest.raises(UserError, match=r"part-\d+.*\.parquet cannot be read"):
        search(own_table, Question(texts=("quincunx",)))


def test_following_brings_each_new_row_once_in_the_order_of_time(tmp_path):
    made = log_table(tmp_path)
    follower = Follower(tmp_path, Question(limit=2), ["offset"])
    assert follower.look(100) == Look([], is_cut=False)
    seen = []
    for number in range(23):
        made.append(
            arrow([row(2 * number, batch=number), row(2 * number + 1, batch=number)]), number
        )
        if number % 4 == 2:  # so that looks fall before, into and after merges
            look = follower.look(8)
            assert not look.is_cut
            seen += [one["offset"] for one in look.rows]
    assert seen == list(range(4, 46))


# The command


def test_the_command_prints_what_was_found(table):
    out = str(table.parent)
    ran = moldau("logs", "search", "--out", out, "--text", "quincunx", "-n", "2")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["TIME", "LEVEL", "HOST", "SERVICE", "MESSAGE"]
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "2026-11-15T12:00:01.807000Z INFO web-1 shop a quincunx in batch 9",
        "2026-11-15T12:00:01.607000Z INFO web-2 shop a quincunx in batch 8",
    ]
    ran = moldau("logs", "search", "--out", out, "--field", "request_id=id-77", "-o", "json")
    (found,) = json.loads(ran.out)
    assert (found["offset"], found["fields"]) == (
        77,
        {"request_id": "id-77", "shelf": "17", "side": "1"},
    )
    ran = moldau(
        "logs", "search", "--out", out, "--since", "2026-11-15T12:00:00.100Z", "--until",
        "@2026-11-15T12:00:00.103Z", "--host", "web-1", "-l", "debug", "-o", "csv",
    )  # fmt: skip
    assert len(ran.out.splitlines()) == 2


@pytest.mark.parametrize("sign", ["", "@"])
def test_a_time_is_asked_for_to_the_microsecond_that_rows_are_printed_with(tmp_path, sign):
    times_us = [NOON_US + after for after in (100, 499, 500, 900)]
    rows = [row(offset, time_us=time_us) for offset, time_us in enumerate(times_us)]
    log_table(tmp_path / "logs").append(arrow(rows), 0)
    words = ["logs", "search", "--out", tmp_path, "-o", "json"]
    moment = f"{sign}2026-11-15T12:00:00.000500Z"
    before, after = (moldau(*words, option, moment) for option in ("--until", "--since"))
    assert [one["offset"] for one in json.loads(before.out)] == [1, 0]
    assert [one["offset"] for one in json.loads(after.out)] == [3, 2]


def test_texts_expressions_and_their_absence_are_asked_for_together(table):
    words = ["logs", "search", "--out", str(table.parent), "-o", "json", "-n", "3"]
    found = [
        "-t",
        "REQUEST",
        "-t",
        "user 3",
        "--regex",
        "^request 1?9.[0-5] OF",
        "--not",
        "user 33",
    ]
    ran = moldau(*words, *found, "-i", "--not", "", "-t", "")
    assert [row["offset"] for row in json.loads(ran.out)] == [1991, 1984, 1970]
    assert json.loads(moldau(*words, *found).out) == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--level", "loud"], "'loud' is no level"),
        (["--since", "+5"], "'+5' is not a time"),
        (["--until", "soon"], "'soon' is not a time"),
        (["--since", "9" * 5000], "is not a time"),
        (["--field", "user"], "expected NAME=VALUE"),
        (["--regex", "plums("], "'plums(' is no regular expression"),
        (["--text", "\udcff"], "'\\udcff' is not text: expected UTF-8"),
        (["--field", "a=\udcff"], "'a=\\udcff' is not text: expected UTF-8"),
        (["--field", "side=0", "--field", "side=1"], "side=0: a row has one of them only"),
        (["--follow", "-o", "yaml"], "--follow prints -o table or json"),
    ],
)
def test_what_cannot_be_asked_is_one_line(table, words, complaint):
    ran = moldau("logs", "search", "--out", str(table.parent), *words)
    assert ran.status == 1
    assert complaint in ran.err
    assert ran.err.count("\n") == 1


def test_a_folder_without_the_table_is_one_line(tmp_path):
    ran = moldau("logs", "search", "--out", str(tmp_path))
    assert (ran.status, ran.err.count("\n")) == (1, 1)
    assert "there is no table" in ran.err


def test_following_prints_lines_in_the_order_of_time_until_it_is_interrupted(table, monkeypatch):
    looks = iter([None, KeyboardInterrupt])

    def sleep(period_s):
        if (end := next(looks)) is not None:
            raise end

    monkeypatch.setattr("moldau.cli.logs.time.sleep", sleep)
    words = ["logs", "search", "--out", table.parent, "--text", "quincunx", "-n", "2", "--follow"]
    ran = moldau(*words)
    assert [line.split()[-1] for line in ran.out.splitlines()] == ["8", "9"]
    assert ran.status == 130
    looks = iter([KeyboardInterrupt])
    ran = moldau(*words, "-o", "json")
    assert [json.loads(line)["offset"] for line in ran.out.splitlines()] == [1607, 1807]


def test_following_says_when_more_rows_have_come_than_it_prints(tmp_path, monkeypatch):
    """Two rows of one time are parted by the limit, and the time that is named finds both."""
    made = log_table(tmp_path / "logs")
    times_us = [NOON_US, NOON_US + 1_500, NOON_US + 1_500, NOON_US + 3_000]
    batches = [[row(0)], [row(1 + at, time_us=time_us) for at, time_us in enumerate(times_us)]]
    made.append(arrow(batches[0]), 0)
    ends = iter([KeyboardInterrupt])

    def sleep(period_s):
        if len(batches) == 1:
            raise next(ends)
        made.append(arrow(one | {"batch": 1} for one in batches.pop()), 1)

    monkeypatch.setattr("moldau.cli.logs.time.sleep", sleep)
    monkeypatch.setattr("moldau.cli.logs.FOLLOW_LIMIT", 2)
    words = ["logs", "search", "--out", tmp_path, "-o", "json"]
    ran = moldau(*words, "--follow")
    assert [json.loads(line)["offset"] for line in ran.out.splitlines()] == [0, 3, 4]
    assert ran.err == (
        "moldau: more than 2 rows have come at once and older ones were left out: find them with "
        "--until 2026-11-15T12:00:00.002Z and a larger --limit\n\n"  # the second after Ctrl-C
    )
    found = json.loads(moldau(*words, "--until", "2026-11-15T12:00:00.002Z").out)
    assert [one["offset"] for one in found] == [3, 2, 1, 0]


def test_times_that_no_calendar_has_are_no_error(table):
    assert search(table, Question(until_us=-(1 << 62))).rows == []
    assert search(table, Question(since_us=1 << 62)).rows == []


@pytest.mark.process
def test_spark_is_not_loaded(table):
    program = (
        "import sys\nfrom moldau.cli.main import main\n"
        f"sys.argv[1:] = ['logs', 'search', '--out', {str(table.parent)!r}, '-n', '1']\n"
        "try:\n    main()\nfinally:\n    print('pyspark' in sys.modules, file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    assert ran.stderr == "False\n"


def test_a_question_with_a_limit_of_one_finds_the_newest(table):
    rows = search(table, replace(Question(), limit=1), ["time", "offset", "level"]).rows
    assert rows == [{"time": "2026-11-15T12:00:01.999000Z", "offset": 1999, "level": "INFO"}]


def test_the_place_of_sketches_is_hidden_from_readers_of_folders():
    assert sketch_place("/a/b=c/part-1.parquet") == "/a/b=c/_part-1.sketch"
