"""Checks of the network: ports that a broker opens, and names that clients are told."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.base.network import Address
from moldau.cli.doctor.findings import Finding, Result, ok
from moldau.cli.doctor.machine import Machine
from moldau.cli.doctor.plan import BrokerPlan, Port


def check_network(machine: Machine, plan: BrokerPlan) -> Iterator[Finding]:
    """Check the ports and the names of a broker."""
    is_running = any(machine.folder(path).is_locked for path in plan.log_dirs)
    for port in plan.ports:
        yield _port(machine, port, is_running=is_running)
    for host in plan.advertised_hosts:
        yield _advertised(machine, host)


def _port(machine: Machine, port: Port, *, is_running: bool) -> Finding:
    where = str(Address(port.host or "*", port.number))
    reason = machine.why_not_bound(port.host, port.number)
    if reason is None:
        return ok(port.name, f"{where} is free")
    if is_running:
        return ok(port.name, f"{where}: {reason}, and a broker runs here")
    advice = "Stop what listens there, or choose another address or port"
    return Finding(port.name, Result.PROBLEM, f"{where}: {reason}", advice)


def _advertised(machine: Machine, host: str) -> Finding:
    check = f"name {host}"
    if machine.is_known_host(host):
        return ok(check, "has an address")
    advice = "Set advertised.listeners to a name that clients can look up"
    return Finding(check, Result.ADVICE, "has no address", advice)
