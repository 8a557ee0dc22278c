"""Java and ZooKeeper's jars are found, or one line says what to install."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from moldau.base.errors import UserError
from moldau.cli.zookeeper.installation import find_class_path, find_java

ANSWER = """\
#!/bin/sh
cat >&2 <<END
Property settings:
    java.home = {home}
    java.specification.version = {version}
    java.vm.specification.version = 99
END
"""


def write_java(home: Path, text: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(text)
    java.chmod(0o755)
    return java


@pytest.mark.process
def test_the_java_of_java_home_comes_before_that_on_the_path(tmp_path):
    chosen, other = (
        write_java(home, ANSWER.format(home=home, version=21))
        for home in (tmp_path / "chosen", tmp_path / "other")
    )
    environ = {"JAVA_HOME": str(tmp_path / "chosen"), "PATH": str(other.parent)}
    assert find_java(environ) == str(chosen)
    assert find_java({"PATH": str(other.parent)}) == str(other)


@pytest.mark.process
def test_a_script_on_the_path_leads_to_the_program_that_it_runs(tmp_path):
    program = write_java(tmp_path / "home", "")
    script = write_java(tmp_path / "shim", ANSWER.format(home=tmp_path / "home", version=17))
    assert find_java({"PATH": str(script.parent)}) == str(program)


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ANSWER.format(home="/none", version="1.8"), "is Java 1.8"),
        (ANSWER.format(home="/none", version="11"), "is Java 11"),
        ("#!/bin/sh\n", "does not tell its version"),
    ],
)
def test_another_java_is_refused(tmp_path, text, told):
    java = write_java(tmp_path, text)
    with pytest.raises(UserError) as refused:
        find_java({"PATH": str(java.parent)})
    assert str(refused.value).startswith(f"ZooKeeper needs Java 17 or newer: {java} {told}. ")


@pytest.mark.process
def test_ctrl_c_does_not_reach_the_java_that_is_asked(tmp_path):
    session = f"cut -d ' ' -f 6 /proc/$$/stat > {tmp_path}/session\n"
    java = write_java(tmp_path, ANSWER.format(home=tmp_path, version=17) + session)
    assert find_java({"PATH": str(java.parent)}) == str(java)
    assert int((tmp_path / "session").read_text()) != os.getsid(0)


def test_a_missing_java_is_one_line_that_says_what_to_install(tmp_path):
    with pytest.raises(UserError, match=r"needs Java 17 or newer: java is not on PATH") as refused:
        find_java({"PATH": str(tmp_path)})
    assert "apt install default-jre-headless" in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match=f"JAVA_HOME={tmp_path} has no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_the_jars_of_debian_stand_in_for_those_of_pyspark(tmp_path, monkeypatch):
    assert Path(find_class_path(tmp_path)).match("pyspark/jars/*")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'moldau\[spark\]'.*apt install"):
        find_class_path(tmp_path)
    (tmp_path / "zookeeper.jar").touch()
    assert find_class_path(tmp_path) == f"{tmp_path}/zookeeper.jar:{tmp_path}/slf4j-simple.jar"
