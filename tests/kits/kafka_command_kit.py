"""Kafka's own command and ours, run one after the other on the same broker.

Ours runs in this process with streams of its own; Kafka's runs in a session that keeps its virtual
machine. What people parse must be equal: standard output and the exit status. On standard error
Kafka adds usage texts and stack traces of its own, so there the first line counts.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from kafka_harness.broker import BrokerProcess
from kafka_harness.java import Output
from kafka_harness.kinds import release_of
from kafka_harness.tool_session import ToolSession
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.table import TOOLS, run_tool, tool_of_class

_RANDOM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def ours(name: str, *arguments: object, stdin: bytes = b"") -> Output:
    """Run a command of ours in this process."""
    stdout, stderr = io.BytesIO(), io.BytesIO()
    console = Console(io.BytesIO(stdin), stdout, stderr)
    status = run_tool(name, [str(one) for one in arguments], console)
    return Output(
        stdout.getvalue().decode(errors="surrogateescape"),
        stderr.getvalue().decode(errors="surrogateescape"),
        status,
    )


def class_of(name: str) -> str:
    """Return the class that a command is in Kafka 4.3: the last of those that it was."""
    assert tool_of_class(TOOLS[name].classes[-1]) == name
    return TOOLS[name].classes[-1]


class Commands:
    """One broker, and both makes of commands to ask it."""

    def __init__(self, broker: BrokerProcess, session: ToolSession) -> None:
        self.broker = broker
        self.session = session

    def is_since(self, *release: int) -> bool:
        """Tell whether the broker is of a release of Kafka or later; Moldau is always."""
        found = release_of(self.broker.kind)
        return found is None or tuple(map(int, found.split("."))) >= release

    def theirs(self, name: str, *arguments: object) -> Output:
        """Run Kafka's own command on the broker."""
        return self.session.run(
            class_of(name), "--bootstrap-server", self.broker.address, *arguments, check=False
        )

    def ours(self, name: str, *arguments: object, stdin: bytes = b"") -> Output:
        """Run our command on the broker."""
        return ours(name, "--bootstrap-server", self.broker.address, *arguments, stdin=stdin)

    def same(
        self,
        name: str,
        *arguments: object,
        order: Callable[[list[str]], list[str]] = list,
    ) -> Output:
        """Run both on the broker; return what ours said when both said the same.

        `order` sets the order of lines aside where Kafka's is that of a hash map: `sorted`.
        A broker that many tests share may change between the two: a difference counts if Kafka's
        command says the same before and after ours.
        """

        def said(output: Output) -> tuple[list[str], int]:
            return order(_lines(output.stdout)), output.status

        theirs = self.theirs(name, *arguments)
        while said(own := self.ours(name, *arguments)) != said(theirs):
            before, theirs = theirs, self.theirs(name, *arguments)
            if said(before) == said(theirs):
                break
        assert said(own) == said(theirs), (
            f"{name} {' '.join(map(str, arguments))}\n{theirs.stderr}{own.stderr}"
        )
        return own

    def same_refusal(self, name: str, *arguments: object) -> str:
        """Run both; return the line on standard error that says why, when it is the same."""
        theirs, own = self.theirs(name, *arguments), self.ours(name, *arguments)
        said = (own.stdout, _first(own.stderr), own.status)
        assert said == (theirs.stdout, _first(theirs.stderr), theirs.status), arguments
        return said[1]


def _lines(stdout: str) -> list[str]:
    """Return lines as they were printed, but for what is random in a member's id."""
    return _RANDOM.sub("<random>", stdout).split("\n")


def _first(stderr: str) -> str:
    return stderr.partition("\n")[0]
