"""Who a new voter is, as its own file and its metadata directory say."""

from __future__ import annotations

import pytest

from moldau.base.errors import UserError
from moldau.base.ids import uuid_text
from moldau.cli.operations.new_voter import (
    NewVoter,
    parse_directory_id,
    parse_endpoint,
    read_new_voter,
)
from moldau.client.admin import ControllerEndpoint

DIRECTORY = bytes(range(16))


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "meta.properties").write_text(f"directory.id={uuid_text(DIRECTORY)}\n")
    return {
        "node.id": "4",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://:9092, controller://0.0.0.0:9093,OTHER://[::1]:9094",
        "advertised.listeners": "CONTROLLER://c.example:9093",
        "controller.listener.names": "Controller,other",
        "log.dirs": f"{tmp_path},/elsewhere",
    }


def test_a_controller_is_named_by_its_file_and_its_directory(settings):
    named = NewVoter(
        4,
        DIRECTORY,
        (
            ControllerEndpoint("CONTROLLER", "c.example", 9093),
            ControllerEndpoint("OTHER", "::1", 9094),
        ),
    )
    assert read_new_voter(settings) == named
    settings["metadata.log.dir"], settings["log.dirs"] = settings["log.dirs"].split(",")[0], "/no"
    assert read_new_voter(settings) == named


def test_a_listener_without_a_host_is_on_this_machine(settings):
    settings |= {"listeners": "C://:1", "controller.listener.names": "C"}
    assert read_new_voter(settings).endpoints == (ControllerEndpoint("C", "localhost", 1),)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"node.id": None}, "node.id not found"),
        ({"node.id": "-1"}, "node.id was negative"),
        ({"node.id": "x"}, "node.id is no number"),
        ({"process.roles": "broker"}, "did not contain 'controller'"),
        ({"log.dirs": None}, "Neither metadata.log.dir nor log.dirs"),
        ({"log.dirs": "/nowhere"}, "Unable to read meta.properties from /nowhere"),
        ({"controller.listener.names": None}, "controller.listener.names was not found"),
        ({"controller.listener.names": "x"}, "controller listener name: X"),
        ({"advertised.listeners": "CONTROLLER://h:0"}, "is not an endpoint"),
    ],
)
def test_what_is_missing_is_named(settings, change, said):
    given = {key: value for key, value in (settings | change).items() if value is not None}
    with pytest.raises(UserError, match=said):
        read_new_voter(given)


def test_a_directory_without_an_id_is_refused(settings, tmp_path):
    for text, said in (("", "No directory id found"), ("directory.id=*\n", "directory.id: ")):
        (tmp_path / "meta.properties").write_text(text)
        with pytest.raises(UserError, match=said):
            read_new_voter(settings)


def test_an_id_with_a_slip_in_it_names_no_other_directory():
    text = uuid_text(DIRECTORY)
    assert parse_directory_id(text) == parse_directory_id(f"{text}==") == DIRECTORY
    for wrong in ("", "xx", f"{text[:5]}*{text[5:]}", f"{text}A", f"{text} "):
        with pytest.raises(ValueError, match="id"):
            parse_directory_id(wrong)


def test_an_endpoint_may_name_its_listener():
    assert parse_endpoint("h:1", "C") == ControllerEndpoint("C", "h", 1)
    assert parse_endpoint("d://[::1]:2", "C") == ControllerEndpoint("D", "::1", 2)
    for wrong in ("h", "h:", ":1", "h:65536", "::1:2", "C://:1", "h:1,i:2"):
        with pytest.raises(UserError):
            parse_endpoint(wrong, "C")
