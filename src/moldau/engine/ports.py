"""The outside world of a client: network, time and chance, given once where a client is made."""

from __future__ import annotations

from moldau.base.clock import Clock, Random, SystemClock, system_random
from moldau.base.network import Network
from moldau.base.tuples import NamedTuple
from moldau.engine.settings import ConnectionSettings
from moldau.transport.sockets import SocketBuffers, SocketNetwork


class ClientPorts(NamedTuple):
    """Everything a client needs of the machine it runs on; the simulation has its own."""

    network: Network
    clock: Clock
    random: Random


def system_ports(settings: ConnectionSettings) -> ClientPorts:
    """Return this machine's network, clock and randomness."""
    buffers = SocketBuffers(settings.send_buffer_bytes, settings.receive_buffer_bytes)
    return ClientPorts(SocketNetwork(opened=buffers), SystemClock(), system_random())
