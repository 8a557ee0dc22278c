"""The unit of systemd: it starts what there is, and waits for what a broker tells."""

from __future__ import annotations

import configparser
from pathlib import Path

import click

from moldau.cli.main import cli

FOLDER = Path(__file__).parents[3] / "packaging" / "systemd"


def read_unit():
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str
    unit.read_string((FOLDER / "moldau@.service").read_text())
    return unit


def test_the_unit_starts_a_broker_with_the_file_of_its_name():
    program, *words = read_unit()["Service"]["ExecStart"].split()
    assert program == "/opt/moldau/bin/moldau"
    context = click.Context(cli)
    _, command, rest = cli.resolve_command(context, words)
    assert command.make_context("serve", rest).params["config"] == Path("/etc/moldau/%i.properties")


def test_the_unit_waits_for_the_broker_and_watches_its_loop():
    service = read_unit()["Service"]
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) > 10, "a loop that is busy for seconds is not stalled"
    assert service["Restart"] == "on-failure"
    assert int(service["TimeoutStopSec"]) > 30, "leadership is moved for up to 30 seconds"


def test_the_user_of_the_unit_is_the_one_that_is_made():
    service = read_unit()["Service"]
    (line,) = [
        line
        for line in (FOLDER / "moldau.sysusers").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert line.split()[:2] == ["u", service["User"]]
