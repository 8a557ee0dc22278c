"""ACLs, SCRAM credentials and delegation tokens of a broker that has none of them."""

from __future__ import annotations

from differential.peer import Peer
from moldau.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from moldau.protocol.messages.security import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
    ScramUserName,
)

ANY, LITERAL, TOPIC, CLUSTER, ALLOW, READ = 1, 3, 2, 4, 3, 3


def acls(peer: Peer) -> None:
    described = {
        "all": (ANY, None, ANY, None, None, ANY, ANY),
        "of a topic": (TOPIC, "t", LITERAL, "User:a", "*", READ, ALLOW),
        "unknown type": (0, None, ANY, None, None, ANY, ANY),
        "type 99": (99, None, ANY, None, None, ANY, ANY),
        "unknown operation": (ANY, None, ANY, None, None, 0, ANY),
        "unknown pattern": (ANY, None, 0, None, None, ANY, ANY),
    }
    for what, fields in described.items():
        peer.ask_all(f"describe: {what}", DescribeAclsRequest(*fields), 1)
    rule = AclCreation(TOPIC, "t", LITERAL, "User:a", "*", READ, ALLOW)
    odd = {
        "one": [rule],
        "none": [],
        "the same twice": [rule, rule],
        "no principal": [AclCreation(TOPIC, "t", LITERAL, "", "*", READ, ALLOW)],
        "any operation": [rule, AclCreation(TOPIC, "t", LITERAL, "User:a", "*", ANY, ALLOW)],
        "unknown type": [AclCreation(0, "t", LITERAL, "User:a", "*", READ, ALLOW)],
        "cluster by another name": [AclCreation(CLUSTER, "x", LITERAL, "User:a", "*", READ, ALLOW)],
    }
    for what, rules in odd.items():
        peer.ask_all(f"create: {what}", CreateAclsRequest(rules), 1)
    every = DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
    for what, filters in {
        "one": [every],
        "none": [],
        "the same twice": [every, every],
        "unknown type": [DeleteAclsFilter(0, None, ANY, None, None, ANY, ANY)],
    }.items():
        peer.ask_all(f"delete: {what}", DeleteAclsRequest(filters), 1)


def scram_credentials(peer: Peer) -> None:
    for what, names in {
        "all": None,
        "none": [],
        "one": ["a"],
        "two": ["a", "b"],
        "one twice": ["a", "b", "a"],
        "one three times": ["a", "a", "a"],
        "no name": [""],
    }.items():
        users = None if names is None else [ScramUserName(name) for name in names]
        answers = peer.call(DescribeUserScramCredentialsRequest(users), 0)
        answers.results.sort(key=lambda one: one.user)
        peer.note_answer(what, answers)


def delegation_tokens(peer: Peer) -> None:
    for what, request in {
        "create": CreateDelegationTokenRequest(max_lifetime_ms=1000),
        "renew": RenewDelegationTokenRequest(b"token", 1000),
        "expire": ExpireDelegationTokenRequest(b"token", 1000),
        "describe": DescribeDelegationTokenRequest(None),
    }.items():
        peer.ask_all(what, request, 1)


SCENARIOS = (acls, scram_credentials, delegation_tokens)
