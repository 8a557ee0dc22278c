"""The timed part of a rebalance: answers in any pieces, and a broker that hangs up."""

from __future__ import annotations

import socket
import threading

import pytest
from bench.rebalance import Lane, rebalance


def framed(content):
    return len(content).to_bytes(4) + content


def play(broker, answers):
    """Answer what comes with one list of pieces after the other."""
    for pieces in answers:
        broker.recv(100)
        for piece in pieces:
            broker.sendall(piece)


def test_everybody_syncs_once_its_join_is_answered_whole():
    joined, assigned = framed(b"joined" * 20), framed(b"assigned")
    pairs = [socket.socketpair() for _ in range(2)]
    lanes = [Lane(client.fileno(), b"join", b"sync") for client, _ in pairs]
    lanes[1].send(lanes[1].join)
    scripts = [[(joined[:2], joined[2:7], joined[7:]), (assigned,)], [(joined,), (assigned,)]]
    brokers = [
        threading.Thread(target=play, args=(broker, script))
        for (_, broker), script in zip(pairs, scripts, strict=True)
    ]
    for thread in brokers:
        thread.start()
    assert rebalance(lanes[0], lanes[1:]) > 0
    for thread in brokers:
        thread.join()
    assert [lane.answers for lane in lanes] == [[b"joined" * 20, b"assigned"]] * 2
    for pair in pairs:
        for end in pair:
            end.close()


def test_a_broker_that_hangs_up_ends_the_round():
    client, broker = socket.socketpair()
    broker.close()
    with client, pytest.raises(ConnectionResetError):
        Lane(client.fileno(), b"", b"").receive()
