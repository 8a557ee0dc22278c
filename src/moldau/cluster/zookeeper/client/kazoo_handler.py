"""How kazoo calls back: from the thread of its connection, in the order of what was received.

kazoo's own handler passes watches to one thread and results to another. Then a result can overtake
a watch that the server sent before it, and a broker would act on new data while its watch has not
told it that the old was outdated. Here whatever the connection's thread reads is handed on by that
thread itself. Callbacks must not block: they only pass a value to the event loop.

Encrypted connections are made here as well. kazoo would also trust what the system trusts.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import Callback


class InOrderHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """A handler without threads for callbacks.

    It never says that it is running. So kazoo's results call back at once where they are set.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._tls = tls
        self.tls_failure = ""
        """Why the last encrypted connection could not be made."""

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **others: object
    ) -> Any:
        """Connect, encrypted if this handler has a context."""
        if self._tls is None:
            return super().create_connection(
                address=address, hostname=hostname, timeout=timeout, **others
            )
        with contextlib.ExitStack() as opened:
            plain = opened.enter_context(socket.create_connection(address, timeout))
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                encrypted = self._tls.wrap_socket(plain, server_hostname=hostname)
            except ssl.SSLError as error:
                self.tls_failure = _reason(error)
                raise
            self.tls_failure = ""
            opened.pop_all()
            return encrypted

    def select(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for sockets; one whose bytes are decrypted already is ready at once."""
        decrypted = [one for one in args[0] if isinstance(one, ssl.SSLSocket) and one.pending()]
        return (decrypted, [], []) if decrypted else super().select(*args, **kwargs)

    def start(self) -> None:
        """Start no threads."""

    def stop(self) -> None:
        """Stop none."""

    def dispatch_callback(self, callback: Callback) -> None:
        """Call a watch at once."""
        callback.func(*callback.args)


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return f"no encrypted connection: {error.reason or error}"
