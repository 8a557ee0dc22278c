"""What PowerShell is told: a script that it can read, and the right words."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from kafka_harness.broker import BrokerProcess
from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually
from kits.cli_kit import moldau

PAIRS = {"{": "}", "(": ")", "[": "]"}
STRINGS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"`]|`.|"")*\"""", re.DOTALL)


def script() -> str:
    ran = moldau("completion", "powershell")
    assert (ran.status, ran.err) == (0, "")
    return ran.out


def offered(*words: str, incomplete: str = "", **environ: str) -> dict[str, str]:
    """Ask as the script does: words before the cursor, a line each, and the one at the cursor."""
    asked = {"_MOLDAU_COMPLETE": "powershell_complete", "COMP_WORDS": "\n".join(("moldau", *words))}
    if incomplete:
        asked["COMP_CWORD"] = incomplete  # PowerShell takes away a variable that is set to nothing
    ran = moldau(environ=asked | environ)
    assert (ran.status, ran.err) == (0, "")
    lines = (line.partition("\t") for line in ran.out.splitlines() if line)
    return {name: about for name, _, about in lines}


def test_every_bracket_and_string_of_the_script_is_closed():
    bare = STRINGS.sub("", script())
    assert not re.search("[\"'`]", bare)
    open_ones: list[str] = []
    for letter in bare:
        if letter in PAIRS:
            open_ones.append(PAIRS[letter])
        elif letter in PAIRS.values():
            assert open_ones.pop() == letter
    assert not open_ones


def test_the_script_names_the_command_and_leaves_the_environment_as_it_was():
    text = script()
    assert text.startswith("Register-ArgumentCompleter -Native -CommandName moldau -ScriptBlock {")
    assert "%" not in text
    for variable in ("$env:_MOLDAU_COMPLETE", "$env:COMP_WORDS", "$env:COMP_CWORD"):
        assert text.count(variable) == 3


def test_commands_verbs_and_options_are_offered_with_what_they_do():
    assert {"topic", "consume"} < offered().keys()
    assert list(offered(incomplete="to")) == ["topic"]
    assert offered(incomplete="to")["topic"].startswith("Topics:")
    assert list(offered("group", incomplete="de")) == ["delete", "describe"]
    assert list(offered("topic", "list", incomplete="--wa")) == ["--watch"]
    assert "powershell" in offered("completion")


def test_words_are_taken_as_powershell_cut_them():
    assert list(offered("topic", "list", "-X", "client.id=a b", incomplete="--wa")) == ["--watch"]
    assert list(offered("topic", "list", "-X", r"client.id=C:\a", incomplete="--wa")) == ["--watch"]


def test_files_are_left_to_powershell():
    assert offered("topic", "list", "--command-config", incomplete="./c") == {}


def test_names_come_from_the_broker(broker: BrokerProcess):
    name = create_topic(broker.address, "told-to-powershell")
    asked = {"incomplete": name[:-1], "MOLDAU_BOOTSTRAP_SERVERS": broker.address}
    # The broker is given half a second, which it may miss on a busy machine.
    assert eventually(lambda: offered("topic", "describe", **asked), "names are told") == {name: ""}


@pytest.mark.skipif(shutil.which("pwsh") is None, reason="PowerShell is not installed")
def test_powershell_completes_with_the_script():
    line = "moldau topic li"
    ask = f"{script()}\n(TabExpansion2 '{line}' {len(line)}).CompletionMatches.CompletionText"
    done = subprocess.run(
        ["pwsh", "-NoProfile", "-Command", ask], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["list"]
