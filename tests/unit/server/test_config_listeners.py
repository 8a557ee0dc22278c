"""Listeners: what is opened, what clients are told, and which settings contradict each other."""

import pytest

from moldau.base.errors import ConfigError
from moldau.security.session import SecurityProtocol
from moldau.server.network.listeners import (
    ListenerConfigs,
    parse_protocol_map,
    resolve_listeners,
)

MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"


def resolved(*listeners, advertised=(), protocol_map=MAP, inter_broker=None, controller=()):
    configs = ListenerConfigs(
        listeners, advertised, protocol_map, inter_broker, controller_listener_names=controller
    )
    return resolve_listeners(configs, lambda: "here.example")


@pytest.mark.parametrize(
    ("listener", "host", "port", "advertised_host"),
    [
        ("PLAINTEXT://:9092", "", 9092, "here.example"),
        ("PLAINTEXT://0.0.0.0:9092", "0.0.0.0", 9092, "here.example"),
        ("PLAINTEXT://[::]:9092", "::", 9092, "here.example"),
        ("PLAINTEXT://127.0.0.1:9092", "127.0.0.1", 9092, "127.0.0.1"),
        ("plaintext://broker-1.example:0", "broker-1.example", 0, "broker-1.example"),
        ("PLAINTEXT://[fe80::1]:9092", "fe80::1", 9092, "fe80::1"),
    ],
)
def test_a_listener_is_bound_and_advertised(listener, host, port, advertised_host):
    (endpoint,) = resolved(listener).endpoints
    assert (endpoint.name, endpoint.host, endpoint.port) == ("PLAINTEXT", host, port)
    assert (endpoint.advertised_host, endpoint.advertised_port) == (advertised_host, port)
    assert endpoint.security_protocol == SecurityProtocol.PLAINTEXT


def test_what_is_advertised_may_differ_from_what_is_bound():
    (endpoint,) = resolved(
        "PLAINTEXT://0.0.0.0:9092", advertised=["PLAINTEXT://public.example:19092"]
    ).endpoints
    assert endpoint.port == 9092
    assert (endpoint.advertised_host, endpoint.advertised_port) == ("public.example", 19092)


def test_a_port_the_system_chooses_is_left_to_be_advertised_once_it_is_known():
    (endpoint,) = resolved("PLAINTEXT://127.0.0.1:0").endpoints
    assert (endpoint.port, endpoint.advertised_port) == (0, 0)


def test_brokers_need_a_listener_of_their_protocol():
    configs = ListenerConfigs(["PLAINTEXT://:9092"], (), MAP, inter_broker_protocol="SSL")
    with pytest.raises(ConfigError, match="no listener speaks SSL"):
        resolve_listeners(configs, lambda: "here.example")


def test_a_controllers_listeners_are_apart_from_those_for_clients():
    listeners = resolved(
        "PLAINTEXT://:9092",
        "CONTROLLER://:9093",
        advertised=["PLAINTEXT://a:9092", "CONTROLLER://b:19093"],
        controller=["controller"],
    )
    assert [endpoint.name for endpoint in listeners.endpoints] == ["PLAINTEXT"]
    (controller,) = listeners.controller
    assert (controller.name, controller.port) == ("CONTROLLER", 9093)
    assert (controller.advertised_host, controller.advertised_port) == ("b", 19093)
    assert listeners.names == {"PLAINTEXT", "CONTROLLER"}


def test_brokers_use_the_listener_that_is_named_for_them():
    two = ("PLAINTEXT://:9092", "INTERNAL://:9093")
    assert resolved(*two, inter_broker="INTERNAL").inter_broker == "INTERNAL"
    assert resolved(*two).inter_broker == "PLAINTEXT"


def test_one_port_serves_an_ipv4_and_an_ipv6_listener():
    two = resolved("PLAINTEXT://127.0.0.1:9092", "INTERNAL://[::1]:9092")
    assert len(two.endpoints) == 2


def test_two_interfaces_may_use_one_port():
    two = resolved("PLAINTEXT://127.0.0.1:9092", "INTERNAL://127.0.0.2:9092")
    assert len(two.endpoints) == 2


@pytest.mark.parametrize(
    ("listeners", "arguments", "problem"),
    [
        (["9092"], {}, "'9092' is not of the form NAME://HOST:PORT"),
        (["PLAINTEXT://h"], {}, "is not of the form"),
        (["PLAINTEXT://::1:9092"], {}, "is not of the form"),
        (["PLAINTEXT://:65536"], {}, "must lie between 0 and 65535"),
        (["PLAINTEXT://:-1"], {}, "must lie between 0 and 65535"),
        (["PLAINTEXT://:1", "plaintext://:2"], {}, "the listener name PLAINTEXT is used twice"),
        (["PLAINTEXT://:1", "INTERNAL://:1"], {}, "PLAINTEXT and INTERNAL both listen on port 1"),
        (["PLAINTEXT://a:1", "INTERNAL://:1"], {}, "both listen on port 1"),
        (["PLAINTEXT://a:1", "INTERNAL://a:1"], {}, "both listen on port 1"),
        (["OTHER://:1"], {}, "add OTHER:PLAINTEXT to listener.security.protocol.map"),
        (["SSL://:1"], {}, "asks for SSL, which this version does not serve"),
        (["PLAINTEXT://:1", "SSL://:2"], {"controller": ["SSL"]}, "SSL asks for SSL, which this"),
        (["PLAINTEXT://:1", "OTHER://:1"], {"controller": ["OTHER"]}, "both listen on port 1"),
        (["CONTROLLER://:1"], {"controller": ["CONTROLLER"]}, "at least one listener must be"),
        ([], {}, "at least one listener must be"),
        (
            ["PLAINTEXT://:1"],
            {"advertised": ["INTERNAL://a:1"]},
            "INTERNAL is not among listeners",
        ),
        (
            ["PLAINTEXT://:1", "INTERNAL://:2"],
            {"advertised": ["PLAINTEXT://a:1"]},
            "advertised.listeners: INTERNAL is missing",
        ),
        (
            ["PLAINTEXT://:1"],
            {"advertised": ["PLAINTEXT://0.0.0.0:1"]},
            "advertises 0.0.0.0, which no client can connect to",
        ),
        (["PLAINTEXT://:1"], {"inter_broker": "X"}, "inter.broker.listener.name: X is not among"),
    ],
)
def test_listeners_that_contradict_each_other_are_refused(listeners, arguments, problem):
    with pytest.raises(ConfigError) as caught:
        resolved(*listeners, **arguments)
    assert problem in str(caught.value)


def test_the_protocol_map_is_read_in_any_case():
    assert parse_protocol_map(" a:ssl , B:Plaintext,") == {
        "A": SecurityProtocol.SSL,
        "B": SecurityProtocol.PLAINTEXT,
    }


@pytest.mark.parametrize("text", ["A", "A:TLS", ":SSL", "A:SSL,a:PLAINTEXT"])
def test_a_malformed_protocol_map_is_refused(text):
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map: "):
        parse_protocol_map(text)
