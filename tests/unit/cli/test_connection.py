"""Where a command's settings come from, and who wins."""

from __future__ import annotations

import logging

import pytest

from moldau.base.errors import ConfigError, UserError
from moldau.cli.frame.connection import CLIENT_LOGGERS, Connection, hide_client_warnings
from moldau.cli.frame.profiles import Profiles, save_profiles
from moldau.client.admin import AsyncAdmin
from moldau.client.errors import NoBrokerReachable
from moldau.testing.virtual import run_virtually

SERVERS = "bootstrap.servers"


@pytest.fixture(autouse=True)
def _surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("MOLDAU_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("MOLDAU_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("MOLDAU_PROFILE", raising=False)


def servers(connection):
    return connection.for_client(AsyncAdmin).get(SERVERS)


def test_without_a_word_the_client_has_its_own_default():
    assert SERVERS not in Connection().for_client(AsyncAdmin)


def test_each_source_wins_over_those_farther_from_the_user(tmp_path, monkeypatch):
    profiles = {"used": {SERVERS: "used:1"}, "named": {SERVERS: "named:1"}, "env": {SERVERS: "e:1"}}
    save_profiles(Profiles("used", profiles))
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\n")
    assert servers(Connection()) == "used:1"
    monkeypatch.setenv("MOLDAU_PROFILE", "env")
    assert servers(Connection()) == "e:1"
    monkeypatch.setenv("MOLDAU_BOOTSTRAP_SERVERS", "variable:1")
    assert servers(Connection()) == "variable:1"
    assert servers(Connection(profile="named")) == "named:1"
    assert servers(Connection(profile="named", command_config=file)) == "file:1"
    typed = ("bootstrap.servers=typed:1",)
    assert servers(Connection(command_config=file, settings=typed)) == "typed:1"
    assert servers(Connection("option:1", typed, file)) == "option:1"


def test_settings_of_several_sources_come_together(tmp_path):
    save_profiles(Profiles("a", {"a": {SERVERS: "a:1", "client.id": "profile"}}))
    file = tmp_path / "client.properties"
    file.write_text("request.timeout.ms=5\nclient.id=file\n")
    found = Connection(settings=("retry_backoff_ms=7",), command_config=file)
    assert found.for_client(AsyncAdmin) == {
        SERVERS: "a:1",
        "bootstrap.timeout.ms": 0,
        "client.id": "file",
        "request.timeout.ms": "5",
        "retry.backoff.ms": "7",
    }
    AsyncAdmin(**found.for_client(AsyncAdmin))


def test_a_file_shared_with_producers_is_taken_and_what_is_not_used_is_said(tmp_path, capsys):
    file = tmp_path / "client.properties"
    file.write_text("acks=all\nclient.id=me\n")
    found = Connection(command_config=file).for_client(AsyncAdmin)
    assert "acks" not in found
    assert found["client.id"] == "me"
    assert capsys.readouterr().err == f"moldau: {file}: acks is not used here\n"


def test_security_in_a_file_is_never_left_out(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nsasl.mechanism=PLAIN\n")
    with pytest.raises(ConfigError, match="not supported yet"):
        AsyncAdmin(**Connection(command_config=file).for_client(AsyncAdmin))


def test_what_was_typed_has_to_fit():
    with pytest.raises(ConfigError, match=r"is client_id meant"):
        AsyncAdmin(**Connection(settings=("clientid=x",)).for_client(AsyncAdmin))


@pytest.mark.parametrize("text", ["key", "=value", ""])
def test_a_setting_without_a_key_or_a_value_is_refused(text):
    with pytest.raises(UserError, match="expected KEY=VALUE"):
        Connection(settings=(text,)).for_client(AsyncAdmin)


def test_files_and_profiles_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"no\.properties"):
        Connection(command_config=tmp_path / "no.properties").for_client(AsyncAdmin)
    with pytest.raises(UserError, match="there is no profile 'x'"):
        Connection(profile="x").for_client(AsyncAdmin)


@pytest.fixture
def _levels():
    loggers = [logging.getLogger(name) for name in CLIENT_LOGGERS]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("_levels")
def test_a_client_that_finds_no_broker_logs_nothing_where_the_command_says_it(caplog):
    async def story(world):
        await world.broker.stop()
        with pytest.raises(NoBrokerReachable):
            await AsyncAdmin(**world.client()).start()

    hide_client_warnings()
    run_virtually(story)
    assert not caplog.records
