"""What a client is as an object of Python's: it has a name for people, and no copies."""

from __future__ import annotations

from typing import Any, NoReturn

from moldau.engine.errors import InvalidState
from moldau.engine.settings import ConnectionSettings


class OneClient:
    """A producer, a consumer or an admin.

    It stands for connections and threads, which a copy would share without knowing of it.
    """

    _connection_settings: ConnectionSettings

    def __repr__(self) -> str:
        settings = self._connection_settings
        return f"<{type(self).__name__} {settings.client_id} of {settings.bootstrap_servers}>"

    def __reduce_ex__(self, protocol: Any, /) -> NoReturn:
        """Refuse `copy` and `pickle`, and so what sends objects to other processes."""
        raise InvalidState(
            f"{self!r} cannot be copied or pickled",
            advice="Create another client with the same settings.",
        )
