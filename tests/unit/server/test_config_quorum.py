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
THREE = "controller.quorum.voters=1@a:9093,2@b:9093,3@[::1]:9093"
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


APART = f"""
process.roles=controller
listeners=CONTROLLER://:9093
{CONTROLLER}
"""


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("", NodeKind.VOTER),
        ("node.id=2\n" + THREE, NodeKind.MEMBER),
        ("controller.quorum.bootstrap.servers=a:9093,b:9093", NodeKind.MEMBER),
    ],
)
def test_a_controller_alone_votes_and_serves_no_clients(more, kind):
    settings = BrokerSettings.load(APART + more)
    assert (settings.quorum.kind, settings.quorum.is_broker) == (kind, False)
    assert settings.endpoints == ()
    assert settings.listeners.inter_broker == "PLAINTEXT"


def test_a_controller_alone_finds_brokers_by_the_listener_that_they_use():
    text = APART + "inter.broker.listener.name=internal"
    assert BrokerSettings.load(text).listeners.inter_broker == "INTERNAL"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "process.roles=controller\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
            + CONTROLLER,
            (
                "listeners: PLAINTEXT is not among controller.listener.names, and a node with"
                " process.roles=controller serves other nodes only (set by line 2 of the file)"
            ),
        ),
        (
            "process.roles=controller\nlisteners=\n" + CONTROLLER,
            (
                "controller.listener.names: CONTROLLER is not among listeners, and other nodes"
                " reach this one through it. Add CONTROLLER://HOST:PORT to listeners (set by line"
                " 3 of the file)"
            ),
        ),
    ],
)
def test_a_controller_alone_has_listeners_for_other_nodes_and_no_others(text, problem):
    assert refusal(text) == problem


def test_a_voter_is_known_by_its_id():
    settings = quorum(BOTH + "node.id=7\ncontroller.quorum.voters=7@[::1]:9093")
    assert settings.voters == (Voter(7, Address("::1", 9093)),)
    assert settings.controllers == (Address("::1", 9093),)


def test_a_controller_with_others_is_a_member_of_their_quorum():
    settings = quorum(BOTH + THREE)
    assert settings.kind is NodeKind.MEMBER
    assert settings.voters == (
        Voter(1, Address("a", 9093)), Voter(2, Address("b", 9093)), Voter(3, Address("::1", 9093)),
    )  # fmt: skip
    assert settings.controllers == tuple(voter.address for voter in settings.voters)
    assert settings.controller_listener == "CONTROLLER"


def test_a_member_may_know_addresses_alone():
    settings = quorum(BOTH + "controller.quorum.bootstrap.servers=a:9093,b:9093")
    assert (settings.kind, settings.voters) == (NodeKind.MEMBER, ())
    assert settings.controllers == (Address("a", 9093), Address("b", 9093))


def test_who_names_voters_is_not_asked_for_other_addresses():
    several = "\ncontroller.quorum.bootstrap.servers=a:9093,b:9093"
    alone = quorum(BOTH + "controller.quorum.voters=1@a:9093" + several)
    assert (alone.kind, alone.controllers) == (NodeKind.VOTER, (Address("a", 9093),))
    member = quorum(BOTH + THREE + several)
    assert member.controllers[-1] == Address("::1", 9093)


def test_one_address_to_look_at_is_that_of_the_only_voter():
    settings = quorum(BOTH + "controller.quorum.bootstrap.servers=a:9093")
    assert (settings.kind, settings.controllers) == (NodeKind.VOTER, (Address("a", 9093),))


def test_the_first_listener_of_controllers_is_the_one_between_them():
    text = BOTH.replace("CONTROLLER://:9093", "Second://:9094,First://:9093")
    text = text.replace(CONTROLLER, "controller.listener.names=first,second")
    text = text.replace("CONTROLLER:PLAINTEXT", "FIRST:PLAINTEXT,SECOND:PLAINTEXT")
    settings = quorum(text + THREE)
    assert (settings.kind, settings.controller_listener) == (NodeKind.MEMBER, "FIRST")


def test_a_broker_alone_observes_a_quorum_of_several_controllers():
    settings = quorum(BROKER.replace("node.id=2", "node.id=4") + THREE)
    assert settings.kind is NodeKind.OBSERVER
    assert [voter.node_id for voter in settings.voters] == [1, 2, 3]
    assert settings.controller_listener == "CONTROLLER"
    addresses = quorum(BROKER + "controller.quorum.bootstrap.servers=a:1,b:1")
    assert (addresses.kind, len(addresses.controllers)) == (NodeKind.OBSERVER, 2)


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
        ("process.roles=broker", "must say where one is"),
        (BROKER + "controller.quorum.voters=2@a:1", "must not be included in the set of voters"),
        (BOTH + "controller.quorum.voters=9@a:1", "the node id 1 must be included"),
        (
            BROKER + "controller.quorum.bootstrap.servers=a:1\n"
            "controller.quorum.auto.join.enable=true",
            "controller.quorum.auto.join.enable is only supported when process.roles contains",
        ),
        (BOTH + "node.id=4\n" + THREE, "the node id 4 must be included"),
        (BROKER + THREE, "the node id 2 must not be included in the set of voters"),
        (BOTH + "controller.quorum.voters=1@a:1,2@a:1", "voters: a:1 is named twice"),
        (BROKER + "controller.quorum.voters=1@a:1,3@a:1", "voters: a:1 is named twice"),
        (BOTH + "controller.quorum.voters=1@a:1,2@0.0.0.0:1", "0.0.0.0:1 is every interface"),
        (BROKER + "controller.quorum.bootstrap.servers=[::]:1,a:1", "[::]:1 is every interface"),
        (
            "process.roles=broker,controller\n" + THREE,
            "Add CONTROLLER://HOST:PORT to listeners, and set controller.listener.names=CONTROLLER",
        ),
        (
            BOTH.replace(",CONTROLLER://:9093", "") + THREE,
            "through it. Add CONTROLLER://HOST:PORT to listeners",
        ),
        (
            BOTH.replace(CONTROLLER, CONTROLLER + ",NEXT") + THREE,
            "NEXT is not among listeners",
        ),
        (BROKER + "controller.quorum.voters=a:1", "'a:1' is not of the form ID@HOST:PORT"),
        (BROKER + "controller.quorum.voters=2147483648@a:1", "is not of the form ID@HOST:PORT"),
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
        "leader.imbalance.check.interval.seconds", "controller.quorum.election.timeout.ms",
        "controller.quorum.election.backoff.max.ms", "controller.quorum.fetch.timeout.ms",
        "controller.quorum.request.timeout.ms", "controller.quorum.retry.backoff.ms",
    )  # fmt: skip
    settings = BrokerSettings.load(BOTH + "\n".join(f"{name}=5000" for name in names))
    assert not [line for line in settings.warnings if "without effect" in line]


@pytest.mark.parametrize(
    "line",
    [
        "controller.quorum.append.linger.ms=10",
        "controller.quorum.fetch.snapshot.max.bytes=5000",
        "metadata.max.idle.interval.ms=100",
    ],
)
def test_what_a_quorum_does_not_go_by_is_said_to_have_no_effect(line):
    (warning,) = BrokerSettings.load(BOTH + THREE + "\n" + line).warnings
    assert warning == f"accepted without effect: {line.partition('=')[0]}"


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("controller.quorum.election.timeout.ms", 1_000),
        ("controller.quorum.election.backoff.max.ms", 1_000),
        ("controller.quorum.fetch.timeout.ms", 2_000),
        ("controller.quorum.request.timeout.ms", 2_000),
        ("controller.quorum.retry.backoff.ms", 20),
    ],
)
def test_a_quorum_waits_as_long_as_that_of_kafka_unless_it_is_set(name, default):
    assert BrokerSettings.load(BOTH).values.integer(name) == default
    assert BrokerSettings.load(BOTH + f"{name}=7").values.integer(name) == 7
    assert name in refusal(BOTH + f"{name}=-1")
