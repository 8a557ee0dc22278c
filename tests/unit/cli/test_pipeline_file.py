"""Pipelines in a file: the same options as on the command line, and every mistake has its place."""

from __future__ import annotations

import pytest

from kits.cli_kit import moldau
from moldau.base.errors import UserError
from moldau.cli.pipeline import run_group
from moldau.cli.pipelines.file import read_file

WHOLE = """
bootstrap-servers = "h:1"
master = "local[2]"
trigger = "500ms"

[conf]
"spark.driver.memory" = "1g"
"spark.ui.enabled" = true

[client]
"security.protocol" = "PLAINTEXT"

[activity]
out = "/a"
window = "30s"
top = 3

[shop-logs]
pipeline = "logs"
out = "/l"
once = true
trigger = "1s"
alert-rate = 0.5
"""


def read(tmp_path, text):
    file = tmp_path / "pipelines.toml"
    file.write_text(text)
    return read_file(file, run_group.commands)


def test_options_are_those_of_the_command_line(tmp_path):
    runs = read(tmp_path, WHOLE)
    assert list(runs) == ["activity", "shop-logs"]
    activity, logs = runs.values()
    assert (activity["pipeline"], logs["pipeline"]) == ("activity", "logs")
    assert (activity["out"], activity["window"], activity["top"]) == ("/a", 30_000, 3)
    assert (activity["trigger"], logs["trigger"]) == (500, 1000)
    assert (activity["once"], logs["once"], logs["alert_rate"]) == (False, True, 0.5)
    assert activity["delay"] == 120_000
    for one in (activity, logs):
        assert (one["bootstrap_servers"], one["master"]) == ("h:1", "local[2]")
        assert one["conf"] == ("spark.driver.memory=1g", "spark.ui.enabled=true")
        assert one["settings"] == ("security.protocol=PLAINTEXT",)


ACTIVITY = "[activity]\nout = 'a'\n"
NAMES = "activity, logs, metrics, changelog"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", " has no pipeline: expected [activity], [logs], [metrics], [changelog]"),
        ("[activity]\nwindow = 5m", "(at line 2, column 11)"),
        ("[activity]", ": [activity] out: is missing"),
        (f"{ACTIVITY}window = 'x'", ": [activity] window: 'x' is no duration: expected 10s or 5m"),
        (f"{ACTIVITY}top = 0", ": [activity] top: 0 is not in the range 1<=x<=2147483647."),
        (f"{ACTIVITY}windows = 'x'", ": [activity] windows: there is no such option: window?"),
        ("[activity]\nout = ['a']", ": [activity] out: expected a text or a number"),
        ("[activity]\nout = true", ": [activity] out: expected a text or a number"),
        (f"{ACTIVITY}once = 1", ": [activity] once: expected true or false"),
        (f"{ACTIVITY}master = 'x'", ": [activity] master: belongs to the top of the file"),
        ("[activity.conf]\na = 1", ": [activity] conf: belongs to the top of the file"),
        (f"conf = 1\n{ACTIVITY}", ': [activity] conf: is a table: "NAME" = "VALUE"'),
        ("out = 'a'\n[activity]", ": out: move it into the table of a pipeline"),
        (f"{ACTIVITY}[nobody]", f": [nobody] pipeline: 'nobody' is none of {NAMES}"),
        ("[a]\npipeline = ['logs']", f": [a] pipeline: ['logs'] is none of {NAMES}"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_key(tmp_path, text, reason):
    with pytest.raises(UserError) as refused:
        read(tmp_path, text)
    said = str(refused.value)
    assert "\n" not in said
    assert str(tmp_path / "pipelines.toml") in said
    assert reason in said


def test_a_file_that_is_not_there_or_named_beside_a_pipeline_is_refused(tmp_path):
    missing = tmp_path / "nothing.toml"
    ran = moldau("pipeline", "run", "--file", missing)
    assert (ran.status, ran.err) == (
        1,
        f"moldau: cannot read {missing}: No such file or directory\n",
    )
    ran = moldau("pipeline", "run", "--file", missing, "activity", "--out", "x")
    assert ran.status == 2
    assert "not both" in ran.err
