"""What a node is for its cluster's metadata, by its settings; contradictions in Kafka's words."""

import pytest

from moldau.base.errors import ConfigError
from moldau.base.network import Address
from moldau.server.configuration.quorum import NodeKind, Voter
from moldau.server.configuration.settings import BrokerSettings

CONTROLLER = "controller.listener.names=CONTROLLER"
BOTH = f"""
process.roles=broker,controller
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
{CONTROLLER}
"""
BROKER = f"""
process.roles=broker
node.id=2
{CONTROLLER}
"""


def quorum(text):
    return BrokerSettings.load(text).quorum


def refusal(text):
    with pytest.raises(ConfigError) as caught:
        BrokerSettings.load(text)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "broker.id=0",
        "process.roles=broker,controller",
        # It names itself, and has no listener through which anybody could join it.
        "process.roles=broker,controller\ncontroller.quorum.voters=1@localhost:9093",
    ],
)
def test_a_node_without_a_controller_listener_stands_alone(text):
    assert quorum(text).kind is NodeKind.ALONE


def test_a_controller_with_a_listener_votes():
    assert quorum(BOTH).kind is NodeKind.VOTER


def test_a_controllers_listener_speaks_plaintext_where_nothing_is_said_of_it():
    text = "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n" + CONTROLLER
    assert quorum("process.roles=broker,controller\n" + text).kind is NodeKind.VOTER


def test_a_voter_is_known_by_its_id():
    settings = quorum(BOTH + "node.id=7\ncontroller.quorum.voters=7@[::1]:9093")
    assert settings.voters == (Voter(7, Address("::1", 9093)),)
    assert settings.controllers == (Address("::1", 9093),)


@pytest.mark.parametrize(
    "line",
    [
        "controller.quorum.voters=1@here.example:9093",
        "controller.quorum.bootstrap.servers=here.example:9093",
    ],
)
def test_a_broker_alone_observes_the_controller_that_is_named(line):
    settings = quorum(BROKER + line)
    assert settings.kind is NodeKind.OBSERVER
    assert settings.controllers == (Address("here.example", 9093),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("process.roles=controller", "a controller alone cannot be started"),
        ("process.roles=broker", "must say where one is"),
        (BROKER + "controller.quorum.voters=2@a:1", "must not be included in the set of voters"),
        (BROKER + "controller.quorum.voters=1@a:1,3@b:1", "several controllers is not part"),
        (BOTH + "controller.quorum.voters=1@a:1,3@b:1", "several controllers is not part"),
        (BOTH + "controller.quorum.bootstrap.servers=a:1,b:1", "names 2 nodes"),
        (BOTH + "controller.quorum.voters=9@a:1", "the node id 1 must be included"),
        (BROKER + "controller.quorum.voters=a:1", "'a:1' is not of the form ID@HOST:PORT"),
        (BROKER + "controller.quorum.voters=1@a", "'a' is not of the form HOST:PORT"),
        (BROKER + "controller.quorum.voters=1@a:0", "'a:0' is not of the form HOST:PORT"),
        (BROKER + "controller.quorum.voters=1@a:1,1@b:1", "node 1 is named twice"),
        (BROKER + "controller.quorum.bootstrap.servers=a:99999", "is not of the form HOST:PORT"),
        (
            BROKER
            + "controller.quorum.voters=1@a:1\nlisteners=PLAINTEXT://:1,CONTROLLER://:2\n"
            + "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "CONTROLLER must not be among listeners",
        ),
    ],
)
def test_contradictions_are_said_in_one_line(text, problem):
    said = refusal(text)
    assert problem in said
    assert "\n" not in said


def test_a_controller_listens_in_plain_text_unless_the_settings_say_otherwise():
    text = f"""
process.roles=broker,controller
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
{CONTROLLER}
"""
    (controller,) = BrokerSettings.load(text).listeners.controller
    assert controller.security_protocol.name == "PLAINTEXT"
    without = text + "listener.security.protocol.map=PLAINTEXT:PLAINTEXT"
    assert "CONTROLLER has no security protocol" in refusal(without)


def test_nothing_that_a_cluster_goes_by_is_called_without_effect():
    names = (
        "broker.heartbeat.interval.ms", "broker.session.timeout.ms", "replica.lag.time.max.ms",
        "initial.broker.registration.timeout.ms", "controller.quorum.fetch.max.bytes",
        "num.replica.fetchers", "replica.fetch.max.bytes", "controller.socket.timeout.ms",
        "leader.imbalance.check.interval.seconds",
    )  # fmt: skip
    settings = BrokerSettings.load(BOTH + "\n".join(f"{name}=5000" for name in names))
    assert not [line for line in settings.warnings if "without effect" in line]
