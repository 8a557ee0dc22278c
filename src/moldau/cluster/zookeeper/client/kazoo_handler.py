"""How kazoo calls back: from the thread of its connection, in the order of what was received.

kazoo's own handler passes watches to one thread and results to another. Then a result can overtake
a watch that the server sent before it, and a broker would act on new data while its watch has not
told it that the old was outdated. Here whatever the connection's thread reads is handed on by that
thread itself. Callbacks must not block: they only pass a value to the event loop.
"""

from __future__ import annotations

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import Callback


class InOrderHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """A handler without threads for callbacks.

    It never says that it is running. So kazoo's results call back at once where they are set.
    """

    def start(self) -> None:
        """Start no threads."""

    def stop(self) -> None:
        """Stop none."""

    def dispatch_callback(self, callback: Callback) -> None:
        """Call a watch at once."""
        callback.func(*callback.args)
