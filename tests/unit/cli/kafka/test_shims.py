"""Scripts under Kafka's command names."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.cli.kafka import shims
from moldau.cli.kafka.shims import install_shims
from moldau.cli.kafka.table import TOOLS

STAND_IN = """\
#!/bin/sh
echo "$0" "$@"
exit 7
"""


@pytest.fixture
def moldau(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Something to run in the place of `moldau`, in a folder whose name has to be quoted."""
    place = tmp_path / "an 'odd' $folder" / "moldau"
    write_executable(place, STAND_IN)
    monkeypatch.setattr(shims, "_target", lambda: place)
    return place


def write_executable(place: Path, script: str) -> None:
    place.parent.mkdir(exist_ok=True)
    place.write_text(script)
    place.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path, moldau: Path) -> Path:
    del moldau
    folder = tmp_path / "bin"
    assert install(folder).exit_code == 0
    return folder


def install(folder: Path, *words: str):
    return CliRunner().invoke(install_shims, [str(folder), *words])


def said(*command: object, **options: object) -> tuple[str, int]:
    done = subprocess.run(  # type: ignore[call-overload]
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    assert done.stderr == ""
    return done.stdout, done.returncode


@pytest.mark.parametrize("shell", [(), ("sh",), ("bash",)])
def test_a_shell_runs_a_script_as_it_runs_kafkas(folder, moldau, tmp_path, shell):
    expected = f"{moldau} kafka-topics.sh --list a  b *\n", 7
    words = ("--list", "a  b", "*")
    assert said(*shell, folder / "kafka-topics.sh", *words) == expected
    assert said(*shell, "bin/kafka-topics.sh", *words, cwd=tmp_path) == expected


def test_a_link_to_a_script_works(folder, moldau, tmp_path):
    link = tmp_path / "elsewhere"
    link.symlink_to(folder / "kafka-configs.sh")
    assert said(link, "--describe") == (f"{moldau} kafka-configs.sh --describe\n", 7)


def test_a_script_is_found_on_the_path(folder, moldau):
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    assert said("sh", "-c", "kafka-topics", env=path) == (f"{moldau} kafka-topics\n", 7)


def test_the_moldau_on_the_path_stands_in_for_one_that_is_gone(folder, moldau, tmp_path):
    moldau.unlink()
    write_executable(tmp_path / "other" / "moldau", STAND_IN)
    path = {"PATH": f"{tmp_path / 'other'}:{os.environ['PATH']}"}
    text, status = said(folder / "kafka-topics.sh", "x", env=path)
    assert text.endswith("other/moldau kafka-topics.sh x\n")
    assert status == 7


def test_a_signal_reaches_the_command_itself(folder, moldau):
    write_executable(moldau, "#!/bin/sh\nkill -TERM $$\nexit 7\n")
    assert said("sh", folder / "kafka-topics.sh") == ("", -signal.SIGTERM)


def test_every_command_has_both_names(folder):
    expected = {f"{name}{ending}" for name in TOOLS for ending in ("", ".sh")}
    assert {place.name for place in folder.iterdir()} == expected


def test_scripts_of_ours_are_replaced_and_others_are_left_alone(folder):
    assert install(folder).exit_code == 0
    place = folder / "kafka-topics.sh"
    place.write_text("Kafka's own")
    refused = install(folder)
    assert "kafka-topics.sh already" in str(refused.exception)
    assert place.read_text() == "Kafka's own"
    assert install(folder, "--force").exit_code == 0
    assert place.read_text().startswith("#!/bin/sh\n")


def test_links_that_were_made_before_are_replaced_and_not_written_through(tmp_path, moldau):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kafka-topics.sh").symlink_to(moldau)
    assert install(folder).exit_code == 0
    assert not (folder / "kafka-topics.sh").is_symlink()
    assert moldau.read_text() == STAND_IN
