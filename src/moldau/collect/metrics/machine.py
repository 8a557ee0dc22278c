"""The machine as psutil sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.base.errors import UserError
from moldau.collect.metrics.readings import HostReading, ProcessReading

try:
    import psutil
except ImportError as missing:  # an extra: who collects files alone does without
    raise UserError("measuring needs psutil: pip install 'moldau[collect]'") from missing

_PROCESS: Final = ("pid", "create_time", "name", "cpu_times", "memory_info", "num_threads")

_LOOPBACK: Final = "lo"


class LocalMachine:
    """This machine."""

    def host(self) -> HostReading:
        memory = psutil.virtual_memory()
        times = psutil.cpu_times()._asdict().items()
        return HostReading(
            # The time of guests is counted in what it was spent as already.
            cpu_s={name: value for name, value in times if not name.startswith("guest")},
            load=psutil.getloadavg()[0],
            memory_size=memory.total,
            memory_available_size=memory.available,
            swap_used_size=psutil.swap_memory().used,
            disks=_disks(),
            networks=_networks(),
        )

    def processes(self) -> Sequence[ProcessReading]:
        return [
            _process(one.info)
            for one in psutil.process_iter(_PROCESS)
            if one.info["cpu_times"] and one.info["memory_info"]
        ]


def _disks() -> dict[str, Mapping[str, float]]:
    found: dict[str, Mapping[str, float]] = {}
    for name, counters in (psutil.disk_io_counters(perdisk=True) or {}).items():
        values = counters._asdict()
        taken = {key: values[key] for key in ("read_bytes", "write_bytes")}
        taken |= {key: values[key] for key in ("read_count", "write_count")}
        if "busy_time" in values:
            taken["busy_s"] = values["busy_time"] / 1000
        found[name] = taken
    return found


def _networks() -> dict[str, Mapping[str, float]]:
    return {
        name: {
            "bytes_recv": counters.bytes_recv,
            "bytes_sent": counters.bytes_sent,
            "errors": counters.errin + counters.errout,
            "drops": counters.dropin + counters.dropout,
        }
        for name, counters in psutil.net_io_counters(pernic=True).items()
        if name != _LOOPBACK
    }


def _process(info: Mapping[str, Any]) -> ProcessReading:
    cpu = info["cpu_times"]
    return ProcessReading(
        pid=info["pid"],
        started_s=info["create_time"],
        name=info["name"] or "?",
        cpu_s=cpu.user + cpu.system,
        memory_size=info["memory_info"].rss,
        thread_count=info["num_threads"] or 0,
    )
