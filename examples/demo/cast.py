"""Who takes part: the topics, what fills them, and the pipelines that read them.

What collects, what makes events and what runs the pipelines are commands of `moldau`, as a user
would type them. Pipelines get options that make two minutes interesting: short windows, and little
patience with what is late.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau import NewTopic

MOLDAU: Final = str(Path(sys.executable).with_name("moldau"))

EVENTS_PER_SECOND: Final = 500
"""Enough to see tables grow; what two cores have left belongs to Spark."""

CORES: Final = 2
TRIGGER: Final = "3s"

JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""Two minutes do not earn back what Java's second compiler costs, and one thread is enough to
collect a small heap."""

TOPICS: Final = (
    NewTopic("activity", 2),
    NewTopic("logs", 1),
    NewTopic("metrics", 1),
    NewTopic("stock", 1, configs={"cleanup.policy": "compact"}),
)


@dataclass(frozen=True, slots=True)
class Source:
    """Something that fills a topic."""

    name: str
    topic: str
    command: Sequence[str]
    tells: re.Pattern[str]
    """How it says at its end how many records it has sent."""


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """Something that makes tables of a topic."""

    name: str
    topic: str
    filed: tuple[str, ...]
    """The tables in which, together, every record of the topic stands once. Where there are none,
    as only the last record of a key counts, what the pipeline says of itself has to do."""
    options: Mapping[str, str]
    """What it is told beside the topic."""


PIPELINES: Final = (
    Pipeline(
        "activity",
        "activity",
        ("events", "late", "dead_letters"),
        {"window": "10s", "delay": "10s", "session-gap": "5s", "top": "5"},
    ),
    Pipeline("logs", "logs", ("logs", "dead_letters"), {"window": "10s", "delay": "10s"}),
    Pipeline(
        "metrics",
        "metrics",
        ("samples", "late", "dead_letters"),
        {"window": "5s", "delay": "5s", "history-min": "5"},
    ),
    Pipeline("changelog", "stock", (), {}),
)


def broker(folder: Path) -> list[str]:
    """Return the command of the broker, on a port that is free."""
    data = str(folder / "broker")
    return [MOLDAU, "serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "warn"]


@dataclass(frozen=True, slots=True)
class Cast:
    """The commands, for one folder and one broker."""

    folder: Path
    address: str

    def sources(self) -> list[Source]:
        """What fills the topics; the shop comes first, as others read what it writes."""
        return [self._store(), self._crowd(), self._file_collector(), self._metrics_collector()]

    def _store(self) -> Source:
        """A small service, which writes log files, and sends what it has in stock."""
        program = str(Path(__file__).with_name("shop.py"))
        command = [sys.executable, program, str(self._shop), self.address]
        return Source("shop", "stock", command, re.compile(r"([\d,]+) changes sent"))

    def _crowd(self) -> Source:
        """Users who view pages and search; some events come late, some twice, some broken."""
        command = self._moldau("pipeline", "generate", "--rate", str(EVENTS_PER_SECOND))
        told = re.compile(r"([\d,]+) events sent")
        return Source("crowd", "activity", command, told)

    def _file_collector(self) -> Source:
        """What brings the lines of the shop's logs; tracebacks stay with the line above them."""
        command = self._moldau(
            "collect", "files", f"{self._shop}/*.log", "--topic", "logs", "--host", "shop-1",
            "--state", str(self.folder / "positions.json"), "--lines-wait", "1s", "--scan", "1s",
            "--continues", r"\s|Traceback |[\w.]+Error:",
        )  # fmt: skip
        return Source("files", "logs", command, re.compile(r"records delivered: ([\d,]+)"))

    def _metrics_collector(self) -> Source:
        """What measures this machine, and the requests in the shop's access log."""
        command = self._moldau(
            "collect", "metrics", "--topic", "metrics", "--interval", "1s", "--top", "3",
            "--http", f"shop={self._shop}/access.log",
        )  # fmt: skip
        return Source("metrics", "metrics", command, re.compile(r"samples delivered: ([\d,]+)"))

    def spark(self, pipelines: Sequence[Pipeline]) -> list[str]:
        """What runs the pipelines, all in one Spark, as a file says that is written here."""
        shared = {
            "bootstrap-servers": self.address, "master": f"local[{CORES}]", "trigger": TRIGGER,
        }  # fmt: skip
        lines = [*_lines(shared), "", "[conf]", *_lines(self._small_spark())]
        for one in pipelines:
            told = {"topic": one.topic, "out": str(self.tables(one)), **one.options}
            lines += ["", f"[{one.name}]", *_lines(told)]
        file = self.folder / "pipelines.toml"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return [MOLDAU, "pipeline", "run", "--file", str(file)]

    def _small_spark(self) -> dict[str, str]:
        """Return how Spark is kept small, and from leaving anything behind."""
        own = self.folder / "tmp"
        return {
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Djava.io.tmpdir={own}",
            "spark.local.dir": str(own),
        }

    def tables(self, pipeline: Pipeline) -> Path:
        """Return the folder of a pipeline's tables."""
        return self.folder / "tables" / pipeline.name

    @property
    def _shop(self) -> Path:
        return self.folder / "shop"

    def _moldau(self, *words: str) -> list[str]:
        return [MOLDAU, *words, "-b", self.address]


def _lines(told: Mapping[str, str]) -> list[str]:
    """Write lines of TOML, whose texts contain those of JSON."""
    return [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in told.items()]
