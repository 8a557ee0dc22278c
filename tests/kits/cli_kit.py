"""The `moldau` command, run in the test's own process as a shell would run it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import Any, NamedTuple
from unittest import mock

from moldau.cli.main import main

VARIABLES = ("MOLDAU_BOOTSTRAP_SERVERS", "MOLDAU_CONFIG", "MOLDAU_PROFILE", "XDG_CONFIG_HOME")
"""What the developer's own shell may say must not matter."""


class Ran(NamedTuple):
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The output of `-o json`."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The words of the lines of a table, without its heading."""
        return [line.split() for line in self.out.splitlines()[1:]]


def moldau(*arguments: object, environ: dict[str, str] | None = None) -> Ran:
    """Run a command to its end, in a pipe."""
    out, err = _pipe(), _pipe()
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    clean["MOLDAU_CONFIG"] = os.devnull
    with (
        mock.patch.dict(os.environ, clean | (environ or {}), clear=True),
        mock.patch.object(sys, "argv", ["moldau", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", io.StringIO()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return Ran(status, _written(out), _written(err))


def _pipe() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _written(pipe: io.TextIOWrapper) -> str:
    pipe.seek(0)
    return pipe.read()
