"""The page on installing: its commands work, apart from those of engines that tests do not have."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click

from kits.machine_kit import NOW_S, PLAN, ToldMachine, folder
from moldau.base.properties import parse_properties
from moldau.cli.doctor.command import examine
from moldau.cli.doctor.plan import Port
from moldau.cli.doctor.software import EXTRAS
from moldau.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text()
BIN = Path(sys.executable).parent
TIMEOUT_S = 120
SYSTEM_FOLDERS = ("/etc/", "/usr/")


def section(title):
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def lines_of(title, kind="sh"):
    blocks = re.findall(rf"```{kind}\n(.*?)```", section(title), re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def table_of(title):
    """Return the first column of the last table of a section."""
    table = section(title).rpartition("|---|")[2]
    return [row.split("|")[1].strip() for row in table.splitlines()[1:] if row.startswith("|")]


def run(lines, folder, home):
    done = subprocess.run(
        ["bash", "-euc", "\n".join(lines)],
        cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env=os.environ | {"HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_of_the_checkout_is_for_every_python(tmp_path):
    command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps")
    # What the build needs is here: a test fetches nothing.
    subprocess.run(
        [*command, "--no-build-isolation", "--wheel-dir", tmp_path, ROOT],
        capture_output=True, timeout=TIMEOUT_S, check=True,
        env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )  # fmt: skip
    (wheel,) = tmp_path.iterdir()
    assert re.fullmatch(r"moldau-.*-py3-none-any\.whl", wheel.name)


def test_the_files_of_the_service_are_installed(tmp_path):
    lines = [
        re.sub(rf" ({'|'.join(SYSTEM_FOLDERS)})", rf" {tmp_path}\1", line)
        for line in lines_of("A service")
    ]
    assert len(lines) == 4
    run(lines, ROOT, tmp_path)
    settings = parse_properties((tmp_path / "etc/moldau/server.properties").read_text())
    assert settings["log.dirs"] == "/var/lib/moldau/server"
    unit = (tmp_path / "etc/systemd/system/moldau@.service").read_text()
    assert "\nStateDirectory=moldau/%i\n" in unit
    assert (tmp_path / "usr/lib/sysusers.d/moldau.conf").exists()


def test_the_commands_of_the_doctor_work(tmp_path):
    lines = lines_of("Check a machine")
    assert len(lines) == 3
    text = f"log.dirs={tmp_path}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
    (tmp_path / "server.properties").write_text(text)
    assert "listener PLAINTEXT" in run(lines, tmp_path, tmp_path)


def test_each_check_has_its_line_in_the_table():
    plan = replace(PLAN, ports=(*PLAN.ports, Port("metrics", "", 9404)))
    machine = ToldMachine(folders={"/data": folder(newest_file_s=NOW_S + 1)})
    found = {one.check for one in examine(machine, plan)}
    kinds = {re.sub(r"^(extra|listener|name) .*|( )/.*", r"\1\2", check).strip() for check in found}
    told = re.findall(r"`([^`]+)`", " ".join(table_of("Check a machine")))
    assert sorted(re.sub(r" (NAME|PATH|HOST)$", "", one) for one in told) == sorted(kinds)


def test_each_extra_has_its_line_in_the_table():
    assert table_of("With pip") == [f"`{name}`" for name in EXTRAS]


def test_a_shell_completes_with_the_files_that_are_installed(tmp_path):
    run(lines_of("Completion and manual pages"), tmp_path, tmp_path)
    for_bash = tmp_path / ".local/share/bash-completion/completions/moldau"
    complete = "COMP_WORDS=(moldau doc); COMP_CWORD=1; _moldau_completion moldau"
    lines = [f"source {for_bash}", complete, 'echo "${COMPREPLY[@]}"']
    assert run(lines, tmp_path, tmp_path).split() == ["doctor"]
    assert (tmp_path / ".zfunc/_moldau").read_text().startswith("#compdef moldau\n")
    assert "complete" in (tmp_path / ".config/fish/completions/moldau.fish").read_text()


def test_what_tests_cannot_run_names_what_there_is():
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    shown = [line for kind, block in blocks if not kind for line in block.splitlines()]
    makefile = (ROOT / "Makefile").read_text()
    dockerfile = (ROOT / "packaging" / "Dockerfile").read_text()
    for target in re.findall(r"^make (\w+)", "\n".join(shown), re.MULTILINE):
        assert f"\n{target}: " in makefile
    for file in re.findall(r"packaging/[\w./@-]+\w", PAGE):
        assert (ROOT / file).exists(), file
    for argument in re.findall(r"--build-arg (\w+)=", PAGE):
        assert f"\nARG {argument}=" in dockerfile
    commands = [shlex.split(line)[1:] for line in shown if re.match(r"(\S*/)?moldau ", line)]
    assert len(commands) == 2
    for words in commands:
        command: click.Command = cli
        while isinstance(command, click.Group) and not words[0].startswith("-"):
            command = command.get_command(click.Context(command), words.pop(0))
        command.make_context("moldau", words, resilient_parsing=True)
