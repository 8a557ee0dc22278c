"""DescribeClientQuotas and AlterClientQuotas where there are none."""

from __future__ import annotations

from differential.peer import Peer
from moldau.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaOperation,
    DescribeClientQuotasRequest,
)

EXACT, DEFAULT, ANY = range(3)


def described(peer: Peer) -> None:
    for what, filters in {
        "all": [],
        "a user": [("user", EXACT, "a")],
        "the default user": [("user", DEFAULT, None)],
        "any user": [("user", ANY, None)],
        "a client of a user": [("user", EXACT, "a"), ("client-id", EXACT, "b")],
        "an address": [("ip", EXACT, "127.0.0.1")],
        "an address of a user": [("ip", EXACT, "127.0.0.1"), ("user", EXACT, "a")],
        "user twice": [("user", EXACT, "a"), ("user", EXACT, "b")],
        "an unknown kind": [("cat", EXACT, "a")],
        "no kind": [("", EXACT, "a")],
        "a match of 7": [("user", 7, None)],
        "no name": [("user", EXACT, None)],
        "default with a name": [("user", DEFAULT, "a")],
        "any with a name": [("user", ANY, "a")],
    }.items():
        for strict in (False, True):
            request = DescribeClientQuotasRequest(
                [ClientQuotaFilter(*one) for one in filters], strict
            )
            peer.ask_all(f"{what} {strict}", request)


def altered(peer: Peer) -> None:
    """What is refused, and what changes nothing."""
    remove, rate = ("producer_byte_rate", 0.0, True), ("producer_byte_rate", 1000.0, False)
    for what, entity, operations in (
        ("remove what is not set", [("user", "a")], [remove]),
        ("remove from the default", [("user", None)], [remove]),
        ("nothing", [("user", "a")], []),
        ("no entity", [], [remove]),
        ("an unknown kind", [("cat", "a")], [rate]),
        ("a key that does not exist", [("user", "a")], [("cats", 1.0, False)]),
        ("remove a key that does not exist", [("user", "a")], [("cats", 1.0, True)]),
        ("a key of addresses", [("user", "a")], [("connection_creation_rate", 1.0, False)]),
        ("address and user", [("user", "a"), ("ip", "127.0.0.1")], [rate]),
        ("user twice", [("user", "a"), ("user", "b")], [remove]),
        ("no name", [("user", "")], [rate]),
        ("zero", [("user", "a")], [("producer_byte_rate", 0.0, False)]),
        ("negative", [("user", "a")], [("producer_byte_rate", -5.0, False)]),
        ("a part of a byte", [("user", "a")], [("producer_byte_rate", 1.5, False)]),
    ):
        entry = AlterClientQuotasEntry(
            [ClientQuotaEntity(*one) for one in entity],
            [ClientQuotaOperation(*one) for one in operations],
        )
        for only in (True, False):
            peer.ask_all(f"{what} {only}", AlterClientQuotasRequest([entry], only))
    user = [ClientQuotaEntity("user", "a")]
    entry = AlterClientQuotasEntry(user, [ClientQuotaOperation(*rate)])
    peer.ask_all("set", AlterClientQuotasRequest([entry], True))
    twice = AlterClientQuotasEntry(user, [ClientQuotaOperation(*remove)])
    peer.ask_all("one entity twice", AlterClientQuotasRequest([twice, twice], True))
    peer.ask_all("no entry", AlterClientQuotasRequest([], False))


SCENARIOS = (described, altered)
