"""The command as a whole: what help costs, how it ends, what shells are told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kits.cli_kit import moldau
from moldau.base.errors import InvariantViolated
from moldau.cli.frame.failures import INTERRUPTED
from moldau.cli.main import COMMANDS, cli, main

HEAVY = (
    "asyncio",
    "rich",
    "moldau.client.admin",
    "moldau.protocol",
    "moldau.server",
    "cramjam",
    "lz4",
    "zstandard",
    "prometheus_client",
)
NOBODY = "localhost:1"

NOUNS = [name for name, place in COMMANDS.items() if ".nouns." in place.module]
WALK = [
    (name, verb)
    for name in NOUNS
    if isinstance(group := cli.get_command(click.Context(cli), name), click.Group)
    for verb in group.list_commands(click.Context(group))
]


@pytest.mark.process
@pytest.mark.parametrize(
    "words", [(), ("topic",), ("group", "seek"), ("txn",), ("profile",), ("cluster", "up")]
)
def test_help_imports_nothing_heavy(words):
    program = (
        f"import sys, json; sys.argv = {['moldau', *words, '--help']}\n"
        "from moldau.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print('|', json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = json.loads(done.stdout.decode().rpartition("|")[2])
    assert "moldau.cli.main" in loaded
    assert not [name for name in HEAVY if name in loaded]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there_and_explains_itself(name):
    ran = moldau(name, "--help")
    assert ran.status == 0
    assert f"Usage: moldau {name}" in ran.out
    assert "\\b" not in ran.out
    assert COMMANDS[name].text in moldau("--help").out


@pytest.mark.parametrize(("noun", "verb"), WALK, ids=lambda word: word)
def test_every_verb_explains_itself(noun, verb):
    ran = moldau(noun, verb, "--help")
    assert ran.status == 0
    assert f"Usage: moldau {noun} {verb}" in ran.out
    assert "\\b" not in ran.out


def test_no_broker_means_status_three_and_one_line_with_advice():
    ran = moldau("topic", "list", "-b", NOBODY)
    assert (ran.status, ran.out) == (3, "")
    assert ran.err.startswith("moldau: no broker could be reached")
    assert "advertised.listeners" in ran.err
    assert ran.err.count("\n") == 1


def test_the_environment_says_where_brokers_are():
    ran = moldau("group", "list", environ={"MOLDAU_BOOTSTRAP_SERVERS": NOBODY})
    assert ran.status == 3
    assert NOBODY in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("topic", "nonsense"),
        ("topic", "list", "-Q"),
        ("topic", "list", "-o", "xml"),
        ("topic", "list", "--watch", "0"),
        ("topic", "create"),
    ],
)
def test_wrong_usage_means_status_two(arguments):
    ran = moldau(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert "Error: " in ran.err


def test_a_misspelt_command_is_told_the_nearest():
    ran = moldau("topics", "list")
    assert ran.status == 2
    assert "Did you mean 'topic'?" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "list", "-X", "nonsense"),
        ("topic", "list", "-X", "nonsense=1"),
        ("topic", "list", "-b", "host:port"),
        ("topic", "list", "--profile", "none"),
        ("topic", "list", "--command-config", "none.properties"),
        ("topic", "create", "t", "-c", "retention.ms"),
        ("topic", "alter", "t"),
        ("topic", "trim", "t", "--before", "+1"),
        ("topic", "offsets", "t", "--at", "soon"),
        ("group", "seek", "g"),
        ("group", "seek", "g", "--to", "soon"),
        ("group", "seek", "g", "--to-file", "none.csv"),
        ("config", "get", "broker", "x"),
        ("config", "set", "topic", "t", "retention.ms"),
        ("config", "set", "topic", "t", "a=1", "a=2"),
        ("txn", "producers"),
        ("txn", "list", "--longer-than", "soon"),
        ("dev", "--topics", "a:0"),
        ("dev", "--override", "nonsense"),
        ("cluster", "status", "--data", "none"),
        ("cluster", "kill", "1", "--data", "none"),
        ("cluster", "down", "--data", "none"),
        ("cluster", "up", "--data", "none", "--override", "nonsense"),
        ("cluster", "up", "--data", "none", "--override", "listeners=PLAINTEXT://:1"),
        ("cluster", "up", "--data", "a,b"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_before_anybody_is_asked(arguments):
    ran = moldau(*arguments, environ={"MOLDAU_BOOTSTRAP_SERVERS": NOBODY})
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("moldau: ")
    assert ran.err.count("\n") == 1


def test_a_bug_of_ours_shows_its_trace(monkeypatch):
    def fail(**_: object) -> None:
        raise InvariantViolated("impossible")

    monkeypatch.setattr(cli, "main", fail)
    with pytest.raises(InvariantViolated):
        moldau()


@pytest.mark.process
def test_a_reader_that_has_seen_enough_ends_the_command_quietly():
    command = str(Path(sys.executable).with_name("moldau"))
    with subprocess.Popen(
        [command, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (1, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell):
    ran = moldau("completion", shell)
    assert ran.status == 0
    assert f"_MOLDAU_COMPLETE={shell}_complete" in ran.out


def completed(*words: str) -> list[str]:
    environ = {
        "_MOLDAU_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["moldau", *words]),
        "COMP_CWORD": str(len(words)),
    }
    return [line.removeprefix("plain,") for line in moldau(environ=environ).out.splitlines()]


def test_commands_verbs_and_options_are_completed():
    assert completed("to") == ["topic"]
    assert completed("group", "de") == ["delete", "describe"]
    assert completed("topic", "list", "--wa") == ["--watch"]
    assert completed("log", "du") == ["dump"]
    assert completed("cluster", "sta") == ["start", "status"]
    assert completed("--ver") == ["--version"]


def test_names_nobody_can_tell_are_not_completed_and_not_complained_about():
    assert completed("topic", "describe", "-b", NOBODY, "x") in ([], [""])


def test_ctrl_c_in_the_middle_of_a_lock_is_no_bug(monkeypatch):
    def interrupted(**_):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("cannot release un-acquired lock")

    monkeypatch.setattr(sys, "argv", ["moldau"])
    monkeypatch.setattr(cli, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == INTERRUPTED
