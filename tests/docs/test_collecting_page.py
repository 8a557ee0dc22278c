"""The page on collecting: each example prints what the page shows, and each table is whole."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from kits.cli_kit import moldau
from moldau.cli.collectors.files import files
from moldau.cli.collectors.metrics import metrics
from moldau.cli.main import cli
from moldau.collect.metrics.access_logs import COMBINED, UNITS_US, AccessSamples, access_pattern
from moldau.collect.metrics.host import HostSamples, ProcessSamples
from moldau.collect.metrics.readings import HostReading, ProcessReading
from moldau.collect.metrics.samples import Sample, encode
from moldau.testing import TestBroker

PAGE = (Path(__file__).parents[2] / "docs" / "collecting.md").read_text()
EXAMPLE = re.compile(r"^\$ (moldau .*)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)

APP = b"""2026-11-15 12:00:00,123 INFO shop: open
2026-11-15 12:00:01,001 ERROR shop: no plums
2026-11-15 12:00:02,500 INFO shop: closed
"""
TRACE = b"""2026-11-15 12:00:00,123 ERROR shop: no plums
Traceback (most recent call last):
  File "shop.py", line 3, in <module>
NoPlums: none left
2026-11-15 12:00:01,001 INFO shop: open
"""


def test_each_example_prints_what_the_page_shows(tmp_path):
    """Folders stand for those of the page; times of measurements are the page's own."""
    log, state = tmp_path / "log", tmp_path / "state"
    log.mkdir()
    for name, content in (("app.log", APP), ("trace.txt", TRACE), ("access.txt", b"")):
        (log / name).write_bytes(content)
    sessions = "".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL))
    examples = EXAMPLE.findall(sessions)
    assert len(examples) == sessions.count("$ moldau ") == 7
    with TestBroker() as broker:
        environ = {"MOLDAU_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
        for line, shown in examples:
            words = [
                word.replace("/var/log/shop", str(log)).replace("/var/lib/moldau", str(state))
                for word in shlex.split(line)[1:]
            ]
            ran = moldau(*words, environ=environ)
            printed = (ran.out + ran.err).replace(str(log), "/var/log/shop")
            if shown.startswith("{"):
                ours, theirs = json.loads(printed), json.loads(shown)
                assert list(ours) == list(theirs)
                ours |= {name: theirs[name] for name in ("time", "interval_s")}
                assert ours == theirs
            else:
                assert printed == shown, line


def test_the_lines_that_are_shown_without_output_name_options_that_exist():
    lines = re.findall(r"^moldau .*$", PAGE, re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line)[1:]
        command: click.Command = cli
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        command.make_context("moldau", words)


def test_the_options_that_are_named_exist():
    known = {name for command in (files, metrics) for one in command.params for name in one.opts}
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", PAGE))
    assert len(named) > 15
    assert named <= known


def measured():
    """Samples of everything there is."""
    levels = {"load": 0.0, "memory_size": 0, "memory_available_size": 0, "swap_used_size": 0}
    names = ("user", "system", "iowait", "steal", "idle")
    disk = ("read_bytes", "write_bytes", "read_count", "write_count", "busy_s")
    network = ("bytes_recv", "bytes_sent", "errors", "drops")
    host, processes = HostSamples(), ProcessSamples(1)
    access = AccessSamples("shop", access_pattern(COMBINED), UNITS_US["s"])
    access.add(b'"GET /" 500 1 "-" "-" 0.1')
    access.add(b"nonsense")
    samples = access.take(1.0)
    for second in (1.0, 2.0):
        reading = HostReading(
            cpu_s=dict.fromkeys(names, second),
            disks={"sda": dict.fromkeys(disk, second)},
            networks={"eth0": dict.fromkeys(network, second)},
            **levels,
        )
        samples += host.observe(second, reading)
        samples += processes.observe(second, [ProcessReading(1, 0.0, "nginx", second, 1, 1)])
    return samples


def test_every_metric_unit_and_field_has_its_place_on_the_page():
    samples = measured()
    for sample in samples:
        short = sample.metric.removeprefix("http.time")
        assert f"`{sample.metric}`" in PAGE or f"`{short}`" in PAGE, sample.metric
        assert f"`{sample.unit}`" in PAGE, sample.unit
    fields = json.loads(encode(Sample("a", "b", 1, "c"), "d", 0, 1.0))
    rows = re.findall(r"^\| `(\w+)` \| (?:text|number)", PAGE, re.MULTILINE)
    assert rows == list(fields)
    (schema,) = re.findall(r"As a schema of Spark: `(.*)`", PAGE)
    assert [column.split()[0] for column in schema.split(", ")] == list(fields)
    shown = set(re.findall(r"`((?:cpu|load|memory|swap|disk|network|process|http)\.[\w.]+)`", PAGE))
    assert shown == {one.metric for one in samples} - {
        f"http.time.{name}" for name in ("p50", "p95", "p99", "max")
    }


@pytest.mark.parametrize("server", ["nginx", "Apache"])
def test_lines_of_the_formats_that_are_shown_are_read(server):
    (form,) = re.findall(rf"^\| {server} \| `.*?['\"](.*)['\"].*`", PAGE, re.MULTILINE)
    values = {
        "$status": "200", "$request_time": "0.250", "$body_bytes_sent": "612",
        "%>s": "200", "%D": "250000", "%b": "612",
    }  # fmt: skip
    line = form.replace("\\", "")
    for name, value in values.items():
        line = line.replace(name, value)
    line = re.sub(r"[$%]\{?[\w-]+\}?i?", "x", line)
    access = AccessSamples(
        "shop",
        access_pattern(COMBINED),
        UNITS_US["us" if server == "Apache" else "s"],
    )
    access.add(line.encode())
    told = {one.metric: one.value for one in access.take(1.0)}
    assert (told["http.requests"], told["http.time.max"]) == (1, 0.25)
