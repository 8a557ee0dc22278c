"""Samples of a machine and of its processes, from two readings each. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from moldau.collect.metrics.rates import Rates
from moldau.collect.metrics.readings import HostReading, ProcessReading
from moldau.collect.metrics.samples import Sample

HOST: Final = "host"

_CPU: Final = ("user", "system", "iowait", "steal")
"""What is told apart of the time of the cores; `used` is all but idle and waiting."""
_UNUSED: Final = frozenset({"idle", "iowait"})

_DISK: Final = {
    "read_bytes": ("disk.read", "bytes/s"),
    "write_bytes": ("disk.written", "bytes/s"),
    "read_count": ("disk.reads", "1/s"),
    "write_count": ("disk.writes", "1/s"),
    "busy_s": ("disk.busy", "ratio"),
}
_NETWORK: Final = {
    "bytes_recv": ("network.received", "bytes/s"),
    "bytes_sent": ("network.sent", "bytes/s"),
    "errors": ("network.errors", "1/s"),
    "drops": ("network.drops", "1/s"),
}


class HostSamples:
    """Makes samples of readings of one machine."""

    def __init__(self) -> None:
        self._cpu: Rates[str] = Rates()
        self._devices: Rates[tuple[str, str, str]] = Rates()

    def observe(self, time_s: float, reading: HostReading) -> list[Sample]:
        """Return what a reading tells; rates from the second one on."""
        return [
            *self._of_cpu(time_s, reading),
            Sample(HOST, "load.1m", reading.load, "processes"),
            *_of_memory(reading),
            *self._of_devices(time_s, reading),
        ]

    def _of_cpu(self, time_s: float, reading: HostReading) -> Iterator[Sample]:
        rates = self._cpu.observe(time_s, reading.cpu_s)
        total = sum(rates.values())
        if total <= 0:
            return
        used = sum(rate for name, rate in rates.items() if name not in _UNUSED)
        yield Sample(HOST, "cpu.used", used / total, "ratio")
        for name in _CPU:
            if name in rates:
                yield Sample(HOST, f"cpu.{name}", rates[name] / total, "ratio")

    def _of_devices(self, time_s: float, reading: HostReading) -> Iterator[Sample]:
        counters = {
            (target, *names[counter]): value
            for devices, names in ((reading.disks, _DISK), (reading.networks, _NETWORK))
            for target, values in devices.items()
            for counter, value in values.items()
        }
        rates = self._devices.observe(time_s, counters)
        for (target, metric, unit), rate in rates.items():
            yield Sample(HOST, metric, rate, unit, target)


def _of_memory(reading: HostReading) -> Iterator[Sample]:
    available = reading.memory_available_size
    yield Sample(HOST, "memory.total", reading.memory_size, "bytes")
    yield Sample(HOST, "memory.used", reading.memory_size - available, "bytes")
    yield Sample(HOST, "memory.available", available, "bytes")
    yield Sample(HOST, "swap.used", reading.swap_used_size, "bytes")


class ProcessSamples:
    """Makes samples of those processes that matter: by name, or those that take most.

    With patterns every process whose name one of them matches; otherwise the `top_count` that use
    most of a core, and the `top_count` that occupy most memory.
    """

    def __init__(self, top_count: int, patterns: Sequence[re.Pattern[str]] = ()) -> None:
        self._top_count = top_count
        self._patterns = patterns
        self._rates: Rates[tuple[int, float]] = Rates()

    def observe(self, time_s: float, readings: Iterable[ProcessReading]) -> list[Sample]:
        """Return what readings of all processes tell; the use of cores from the second on."""
        known = {(one.pid, one.started_s): one for one in readings}
        rates = self._rates.observe(time_s, {key: one.cpu_s for key, one in known.items()})
        samples: list[Sample] = []
        for key in self._chosen(known, rates):
            one, target = known[key], str(known[key].pid)
            if key in rates:
                samples.append(Sample(one.name, "process.cpu", rates[key], "cores", target))
            samples.append(Sample(one.name, "process.memory", one.memory_size, "bytes", target))
            samples.append(Sample(one.name, "process.threads", one.thread_count, "count", target))
        return samples

    def _chosen(
        self,
        known: Mapping[tuple[int, float], ProcessReading],
        rates: Mapping[tuple[int, float], float],
    ) -> list[tuple[int, float]]:
        if self._patterns:
            return [key for key, one in known.items() if self._is_named(one.name)]
        by_cpu = self._top(rates, rates.__getitem__)
        by_memory = self._top(known, lambda key: known[key].memory_size)
        return list(dict.fromkeys([*by_cpu, *by_memory]))

    def _top(
        self, keys: Iterable[tuple[int, float]], value: Callable[[tuple[int, float]], float]
    ) -> list[tuple[int, float]]:
        return sorted(keys, key=value, reverse=True)[: self._top_count]

    def _is_named(self, name: str) -> bool:
        return any(pattern.search(name) for pattern in self._patterns)
