"""A broker that starts answers other brokers, and lets clients wait."""

from __future__ import annotations

from moldau.server.network.start_gate import StartGate
from moldau.server.network.turns import Turn

METADATA, UPDATE_METADATA = 3, 6


class Connection:
    def __init__(self):
        self.drained_count = 0

    def drained(self):
        self.drained_count += 1


def frame(key):
    return memoryview(key.to_bytes(2) + bytes(8))


def test_brokers_are_answered_and_clients_wait_until_the_gate_is_open():
    handled = []
    gate = StartGate(lambda _, asked: handled.append(bytes(asked[:2])) or [b"done"], {6})
    client, broker = Connection(), Connection()
    assert gate(broker, frame(UPDATE_METADATA)) == [b"done"]
    assert isinstance(gate(client, frame(METADATA)), Turn)
    assert handled == [b"\0\6"]
    gate.open()
    assert (client.drained_count, broker.drained_count) == (1, 0)
    assert gate(client, frame(METADATA)) == [b"done"]


def test_a_frame_without_a_key_is_left_to_the_dispatch():
    gate = StartGate(lambda *_: [b"refused"], set())
    assert gate(Connection(), memoryview(b"\0")) == [b"refused"]
