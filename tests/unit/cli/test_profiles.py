"""Profiles: kept in a file of the user's own, and never lost halfway."""

from __future__ import annotations

import stat

import pytest

from kits.cli_kit import moldau
from moldau.base.errors import UserError
from moldau.cli.frame.profiles import (
    HIDDEN,
    Profiles,
    load_profiles,
    profiles_file,
    save_profiles,
)


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "config.toml"
    monkeypatch.setenv("MOLDAU_CONFIG", str(path))
    return path


def profile(file, *arguments):
    return moldau("profile", *arguments, environ={"MOLDAU_CONFIG": str(file)})


def test_what_is_saved_is_read_back_whatever_it_holds(file):
    nasty = 'a"b\\c\n\t\x7f\x00=[ž]#'
    saved = Profiles(nasty, {nasty: {"bootstrap.servers": nasty}, "other": {}})
    save_profiles(saved)
    assert load_profiles() == saved


def test_only_the_owner_can_read_the_file_and_nothing_else_is_left(file):
    save_profiles(Profiles())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_the_file_is_where_the_desktop_standard_says(monkeypatch, tmp_path):
    monkeypatch.delenv("MOLDAU_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert profiles_file() == tmp_path / "moldau" / "config.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profiles_file() == tmp_path / ".config" / "moldau" / "config.toml"


@pytest.mark.parametrize("text", ["current = [", "current = 1", "profiles = 1", "profiles.a = 1"])
def test_a_file_that_holds_no_profiles_is_refused_by_its_name(file, text):
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(UserError, match=r"config\.toml"):
        load_profiles()


def test_numbers_and_underscores_in_a_hand_written_file_are_taken(file):
    file.parent.mkdir()
    file.write_text("[profiles.a]\nrequest_timeout_ms = 5\n")
    assert load_profiles().of("a") == {"request.timeout.ms": "5"}


def test_the_first_profile_is_in_use_and_another_can_be(file):
    assert profile(file, "create", "a", "-b", "one:1").status == 0
    assert profile(file, "create", "b", "-b", "two:2", "-X", "client_id=me").status == 0
    assert profile(file, "list").rows == [["a", "yes", "one:1"], ["b", "no", "two:2"]]
    assert profile(file, "use", "b").status == 0
    assert profile(file, "show", "-o", "json").data == {
        "name": "b",
        "settings": {"bootstrap.servers": "two:2", "client.id": "me"},
    }
    assert profile(file, "delete", "b").status == 0
    assert profile(file, "list", "-o", "name").out == "a\n"
    assert profile(file, "show").err == "moldau: no profile is in use: name one\n"


def test_secrets_are_not_shown(file):
    profile(file, "create", "a", "-b", "one:1", "-X", "sasl.password=hush", "-X", "ssl.key.x=hush")
    shown = profile(file, "show")
    assert "hush" not in shown.out
    assert HIDDEN in shown.out


def test_a_profile_is_not_replaced_by_mistake(file):
    profile(file, "create", "a", "-b", "one:1")
    again = profile(file, "create", "a", "-b", "two:2")
    assert (again.status, "--replace" in again.err) == (1, True)
    assert profile(file, "create", "a", "-b", "two:2", "--replace").status == 0
    assert profile(file, "list").rows == [["a", "yes", "two:2"]]


@pytest.mark.parametrize(
    "arguments", [("use", "x"), ("show", "x"), ("delete", "x"), ("create", "x")]
)
def test_what_cannot_be_is_one_line(file, arguments):
    ran = profile(file, *arguments)
    assert ran.status == 1
    assert ran.err.startswith("moldau: ")
    assert ran.err.count("\n") == 1
