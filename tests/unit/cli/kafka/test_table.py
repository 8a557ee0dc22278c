"""Which of Kafka's names is which command."""

from __future__ import annotations

import importlib
import io
import subprocess
import sys

import pytest

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.table import ABSENT, TOOLS, called_tool, run_tool, tool_name, tool_of_class


def run(name: str, *arguments: str) -> tuple[int, str, str]:
    stdout, stderr = io.BytesIO(), io.BytesIO()
    status = run_tool(name, arguments, Console(io.BytesIO(), stdout, stderr))
    return status, stdout.getvalue().decode(), stderr.getvalue().decode()


@pytest.mark.parametrize("given", ["kafka-topics", "kafka-topics.sh", "/opt/bin/kafka-topics.bat"])
def test_a_name_is_known_with_any_ending_and_folder(given):
    assert tool_name(given) == "kafka-topics"


def test_other_names_are_not_ours():
    assert tool_name("moldau") is None
    assert tool_name("kafka-frob.sh") is None
    assert tool_of_class("org.example.Frob") is None


def test_a_command_is_called_by_a_link_or_by_the_first_word():
    assert called_tool(["/bin/kafka-topics.sh", "--list"]) == ("kafka-topics", ["--list"])
    assert called_tool(["/bin/moldau", "kafka-topics", "x"]) == ("kafka-topics", ["x"])
    assert called_tool(["/bin/moldau", "serve", "kafka-topics"]) is None
    assert called_tool(["/bin/moldau"]) is None


@pytest.mark.parametrize("name", TOOLS)
def test_every_command_has_its_module(name):
    assert callable(importlib.import_module(f"moldau.cli.kafka.{TOOLS[name].module}").main)


def test_no_class_is_two_commands():
    classes = [one for tool in TOOLS.values() for one in tool.classes]
    assert len(classes) == len(set(classes))


@pytest.mark.parametrize("name", ABSENT)
def test_what_does_not_exist_is_said_in_one_line(name):
    status, stdout, stderr = run(name, "--list")
    assert (status, stdout) == (1, "")
    assert stderr == f"{name}: Moldau does not have this yet: {ABSENT[name]}\n"


@pytest.mark.process
def test_looking_a_name_up_imports_no_client():
    code = (
        "import sys, moldau.cli.kafka.table as table; table.tool_name('kafka-topics.sh');"
        "print([name for name in sys.modules if name.startswith(('asyncio', 'moldau.client'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_version_names_kafkas_release_first():
    status, stdout, _ = run("kafka-topics", "--version")
    assert status == 0
    assert stdout.split()[0] == "4.3.1"
