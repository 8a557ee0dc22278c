"""Several pipelines in a file: what `moldau pipeline run` is told on the command line, as TOML.

    bootstrap-servers = "127.0.0.1:9092"
    master = "local[4]"

    [conf]
    "spark.driver.memory" = "2g"

    [activity]
    out = "/var/lib/moldau/activity"
    window = "30s"

    [shop-logs]
    pipeline = "logs"
    out = "/var/lib/moldau/shop-logs"

Keys are options without their dashes. At the top stands what is meant for all, in a table what is
meant for one pipeline: that of its name, or of its `pipeline`. Options are read by the very command
that takes them on the command line; there is no second list of them.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from moldau.base.errors import UserError
from moldau.cli.frame.failures import reason_of

Table = Mapping[str, Any]
Given = dict[str, Any]

KIND: Final = "pipeline"
CLIENT: Final = "client"
"""What is `-X` on the command line: settings of the client, under Kafka's names."""
FOR_ALL: Final = frozenset({"master", "conf"})
"""What there is one of, as there is one Spark."""
FOR_ONE: Final = frozenset({"out", "checkpoint", "desk", "metrics-port", "group"})
"""What two pipelines cannot share."""


def read_file(path: Path, commands: Mapping[str, click.Command]) -> dict[str, Given]:
    """Return what is said of each pipeline, by its title, as its command would get it.

    `commands` are those of the pipelines. UserError with the file and the key if something is
    wrong.
    """
    content = _content(path)
    multiple = {name for name, option in _options(next(iter(commands.values()))).items()
                if option.multiple}  # fmt: skip
    tables = {
        key: value
        for key, value in content.items()
        if isinstance(value, dict) and key not in multiple
    }
    shared = {key: value for key, value in content.items() if key not in tables}
    if not tables:
        raise UserError(f"{path} has no pipeline: expected {_listed(commands)}")
    for key in shared:
        if key in FOR_ONE:
            raise UserError(f"{path}: {key}: move it into the table of a pipeline")
    return {
        title: _Reader(path, title, commands).given(shared, table)
        for title, table in tables.items()
    }


def _content(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot read {path}: {reason_of(error)}") from error


class _Reader:
    """Reads one table."""

    def __init__(self, path: Path, title: str, commands: Mapping[str, click.Command]) -> None:
        self._path = path
        self._title = title
        self._commands = commands

    def given(self, shared: Table, table: Table) -> Given:
        """Return the parameters of the pipeline's command, and under `pipeline` its name."""
        kind = table.get(KIND, self._title)
        if kind not in list(self._commands):  # it may be of any type
            raise self._wrong(KIND, f"{kind!r} is none of {', '.join(self._commands)}")
        command = self._commands[kind]
        options = _options(command)
        words = [word for key, value in shared.items() for word in self._words(options, key, value)]
        for key, value in table.items():
            if key in FOR_ALL:
                raise self._wrong(key, "belongs to the top of the file: there is one Spark for all")
            if key != KIND:
                words += self._words(options, key, value)
        try:
            with command.make_context(self._title, words) as context:
                return {**context.params, KIND: kind}
        except click.UsageError as error:
            raise self._told_by(error) from None

    def _words(self, options: Mapping[str, click.Option], key: str, value: Any) -> list[str]:
        """Return what one would type."""
        option = options.get(key)
        if option is None:
            near = difflib.get_close_matches(key, options, 1)
            raise self._wrong(key, "there is no such option" + "".join(f": {n}?" for n in near))
        typed = option.opts[-1]
        if option.multiple:
            if not isinstance(value, dict):
                raise self._wrong(key, 'is a table: "NAME" = "VALUE"')
            return [word for name, one in value.items() for word in (typed, f"{name}={_text(one)}")]
        if isinstance(value, (dict, list)) or option.is_flag != isinstance(value, bool):
            wanted = "true or false" if option.is_flag else "a text or a number"
            raise self._wrong(key, f"expected {wanted}")
        if option.is_flag:
            return [typed] if value else []
        return [typed, str(value)]

    def _told_by(self, error: click.UsageError) -> UserError:
        names = {id(option): name for name, option in _options_of(error).items()}
        key = names.get(id(getattr(error, "param", None)))
        if key is None:
            return self._wrong("", error.format_message())
        if isinstance(error, click.MissingParameter):
            return self._wrong(key, "is missing")
        return self._wrong(key, error.message)

    def _wrong(self, key: str, reason: str) -> UserError:
        place = f"[{self._title}] {key}".strip()
        return UserError(f"{self._path}: {place}: {reason}")


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their keys."""
    return {_key(one): one for one in command.params if isinstance(one, click.Option)}


def _options_of(error: click.UsageError) -> dict[str, click.Option]:
    return {} if error.ctx is None else _options(error.ctx.command)


def _key(option: click.Option) -> str:
    long = next((one for one in option.opts if one.startswith("--")), None)
    return CLIENT if long is None else long.removeprefix("--")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listed(commands: Mapping[str, click.Command]) -> str:
    return ", ".join(f"[{name}]" for name in commands)
