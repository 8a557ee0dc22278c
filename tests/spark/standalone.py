"""A standalone cluster of Spark on this machine, from the jars that PySpark brings along.

A master and its workers are processes of their own on loopback ports, and a job is one more, as it
is for a user: it is told the master's address and nothing else. What a worker starts for a job,
executors and their Python workers, must be gone with the cluster; nothing is ended by its name.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from kafka_harness.distribution import require
from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from spark.session import ENVIRONMENT, LOOPBACK, QUICK_JVM

JARS = Path(pyspark.__file__).parent / "jars"
WORKER_MEMORY = "1g"
WORKER_HOST = "127.0.0.{}"
"""Each worker has an address of its own: Spark starts no second attempt of a slow task on a host
that has seen the task, so that workers at one address would never run a task twice at once."""

SMALL_EXECUTORS = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
SPECULATION = {
    # As eager as can be: every task that is not among the first to end gets a second attempt.
    "spark.speculation": "true",
    "spark.speculation.interval": "10ms",
    "spark.speculation.minTaskRuntime": "1ms",
    "spark.speculation.multiplier": "1",
    "spark.speculation.quantile": "0.1",
}

_START_TIMEOUT_S = 90
_END_TIMEOUT_S = 60
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_SCALA = "2.13"
"""Spark looks for a build tree to learn this, unless it is told; pip's jars have none."""


class JobError(AssertionError):
    """A job ended badly or not at all; the text holds all it said."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster, for jobs."""

    url: str
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a driver's environment must hold.

        The virtual environment is not on its path: that Python is named is all Spark gets.
        """
        here = str(Path(sys.executable).parent)
        path = [entry for entry in os.environ["PATH"].split(os.pathsep) if entry != here]
        return {**_environment(), "PATH": os.pathsep.join(path)}

    def executors(self) -> list[psutil.Process]:
        """Return the executors that workers have started."""
        return [
            process
            for process in psutil.Process().children(recursive=True)
            if _is_executor(process)
        ]

    def kill_executor(self) -> bool:
        """Kill the executor that has worked most, without a word; tell whether there was one."""
        busiest = max(self.executors(), key=_worked_s, default=None)
        if busiest is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            busiest.kill()
        return True

    def run(
        self, script: Path, *arguments: object, timeout_s: float = 180, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a Python script as a driver; its arguments are the master's address and these."""
        command = [sys.executable, str(script), self.url, *map(str, arguments)]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
                cwd=self.directory,
                env=self.environment,
            )
        except subprocess.TimeoutExpired as late:
            raise JobError(f"{script.name}: not done after {timeout_s} s\n{late.stderr}") from None
        if check and done.returncode != 0:
            raise JobError(f"{script.name}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done


@contextmanager
def standalone_cluster(directory: Path, workers: int = 2) -> Iterator[Cluster]:
    """Run a master and workers of one core each, and end them with all they have started."""
    directory.mkdir(parents=True, exist_ok=True)
    port, page = free_port(), free_port()
    url = f"spark://{LOOPBACK}:{port}"
    with ExitStack() as running:
        running.enter_context(
            _daemon(directory, "master", "master.Master", "--host", LOOPBACK,
                    "--port", str(port), "--webui-port", str(page))
        )  # fmt: skip
        eventually(lambda: _alive_workers(page) == 0, "the master answers", _START_TIMEOUT_S)
        for number in range(workers):
            running.enter_context(
                _daemon(directory, f"worker-{number}", "worker.Worker",
                        "--host", WORKER_HOST.format(1 + number),
                        "--webui-port", str(free_port()), "--cores", "1", "--memory", WORKER_MEMORY,
                        "--work-dir", str(directory / f"work-{number}"), url)
            )  # fmt: skip
        eventually(
            lambda: _alive_workers(page) == workers, "the workers registered", _START_TIMEOUT_S
        )
        yield Cluster(url, directory)


@contextmanager
def _daemon(directory: Path, name: str, main_class: str, *arguments: str) -> Iterator[None]:
    command = [
        require("java"), "-Xmx256m", "-cp", str(JARS / "*"),
        f"org.apache.spark.deploy.{main_class}", *arguments,
    ]  # fmt: skip
    with (directory / f"{name}.txt").open("ab") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=_environment(),
            start_new_session=True,
        )
    try:
        yield
    finally:
        _end(process, name)


def _end(process: subprocess.Popen[bytes], name: str) -> None:
    """End a process in good order; what it leaves behind is killed, and is an error."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_END_TIMEOUT_S)
    _, left = psutil.wait_procs(family, _END_TIMEOUT_S)
    for one in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    assert not left, f"Spark's {name} left processes behind: {left}"


def _is_executor(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return _EXECUTOR in process.cmdline()
    return False


def _worked_s(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        return float(process.cpu_times().user)
    return 0


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        **ENVIRONMENT,
        # Read by every `java`, so that executors start as quickly as what starts them.
        "JDK_JAVA_OPTIONS": QUICK_JVM,
        "SPARK_SCALA_VERSION": _SCALA,
    }


def _alive_workers(page: int) -> int | None:
    """Return how many workers the master counts; None while it does not answer, or not so."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, json.JSONDecodeError):  # its pages are there a moment before what is on them
        return None
