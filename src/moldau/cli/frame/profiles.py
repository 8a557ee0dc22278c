"""Named ways to reach a cluster, kept in the user's folder: `~/.config/moldau/config.toml`.

    current = "staging"

    [profiles.staging]
    "bootstrap.servers" = "broker.example:9092"
    "request.timeout.ms" = "5000"

A profile is a set of client settings under Kafka's names. The file is made readable for its owner
only, since settings may be secrets, and is replaced as a whole, so that a crash leaves the old one.
"""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moldau.base.errors import UserError
from moldau.cli.frame.failures import reason_of

FILE_VARIABLE = "MOLDAU_CONFIG"
PROFILE_VARIABLE = "MOLDAU_PROFILE"

SECRET_PARTS = ("password", "secret", "jaas", "token", "credential", ".key")
"""A setting whose name holds one of these is not shown."""

HIDDEN = "(hidden)"


@dataclass(slots=True)
class Profiles:
    """All profiles, and which one is in use."""

    current: str | None = None
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """The settings of each profile by its name."""

    def of(self, name: str) -> dict[str, str]:
        """Return the settings of a profile; UserError if there is none."""
        if name not in self.settings:
            known = ", ".join(sorted(self.settings)) or "none"
            raise UserError(f"there is no profile {name!r} (profiles: {known})")
        return self.settings[name]


def profiles_file() -> Path:
    """Return where profiles are kept."""
    if given := os.environ.get(FILE_VARIABLE):
        return Path(given)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "moldau" / "config.toml"


def load_profiles() -> Profiles:
    """Read the profiles; none where there is no file."""
    path = profiles_file()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Profiles()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot read {path}: {reason_of(error)}") from error
    return _read(content, path)


def _read(content: Mapping[str, Any], path: Path) -> Profiles:
    current, profiles = content.get("current"), content.get("profiles", {})
    if not isinstance(current, (str, type(None))) or not isinstance(profiles, dict):
        raise UserError(f"{path} does not hold profiles: expected current and [profiles.NAME]")
    found = Profiles(current)
    for name, settings in profiles.items():
        if not isinstance(settings, dict):
            raise UserError(f"{path}: profile {name!r} holds no settings")
        found.settings[name] = {
            key.replace("_", "."): _setting(value) for key, value in settings.items()
        }
    return found


def _setting(value: object) -> str:
    """Take numbers and yes and no as TOML has them too."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def save_profiles(profiles: Profiles) -> None:
    """Replace the file."""
    path = profiles_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".config-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(_text(profiles))
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError(f"cannot write {path}: {reason_of(error)}") from error


def _text(profiles: Profiles) -> str:
    lines = ["# Kept by `moldau profile`; comments are not."]
    if profiles.current is not None:
        lines.append(f"current = {_quoted(profiles.current)}")
    for name, settings in sorted(profiles.settings.items()):
        lines += ["", f"[profiles.{_quoted(name)}]"]
        lines += [f"{_quoted(key)} = {_quoted(value)}" for key, value in sorted(settings.items())]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Quote for TOML, whose escapes contain those of JSON but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings as they may be printed."""
    return {
        name: HIDDEN if any(part in name.lower() for part in SECRET_PARTS) else value
        for name, value in settings.items()
    }
