"""Every error of the client: `from moldau.errors import RecordTooLarge`.

They stand in `moldau.client.errors` and in the engine; this is where users import them from.
`docs/errors.md` lists them.
"""

from __future__ import annotations

from moldau.base.errors import ConfigError as ConfigError  # noqa: PLC0414 - for type checkers too
from moldau.base.errors import MoldauError as MoldauError  # noqa: PLC0414 - as above
from moldau.client.errors import *  # noqa: F403 - every error is a name of this module
