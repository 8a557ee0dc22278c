"""Every error that users can meet: `from moldau.errors import RecordTooLarge`.

This module collects the errors of `moldau.base`, `moldau.client`, `moldau.engine` and
`moldau.spark`. `docs/errors.md` lists them. Any other exception is a bug in Moldau.
"""

from __future__ import annotations

# Each is imported under its own name, so that type checkers know it as one of this module.
from moldau.base.errors import ConfigError as ConfigError  # noqa: PLC0414
from moldau.base.errors import MoldauError as MoldauError  # noqa: PLC0414
from moldau.base.errors import StorageError as StorageError  # noqa: PLC0414
from moldau.base.errors import UserError as UserError  # noqa: PLC0414
from moldau.client.errors import *  # noqa: F403 - every error is a name of this module
from moldau.spark.errors import DataLost as DataLost  # noqa: PLC0414
from moldau.spark.errors import ReadInterrupted as ReadInterrupted  # noqa: PLC0414
from moldau.spark.errors import WriteInterrupted as WriteInterrupted  # noqa: PLC0414
