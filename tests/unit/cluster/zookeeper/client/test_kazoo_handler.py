"""How kazoo calls back: in order, from the thread that read the connection."""

from __future__ import annotations

import threading

from kazoo.protocol.states import Callback

from moldau.cluster.zookeeper.client.kazoo_handler import InOrderHandler


def test_watches_and_results_are_told_at_once_by_the_thread_that_has_them():
    handler = InOrderHandler()
    told: list[tuple[str, int]] = []

    def tell(what: str) -> None:
        told.append((what, threading.get_ident()))

    handler.start()
    result = handler.async_result()
    result.rawlink(lambda _: tell("result"))
    handler.dispatch_callback(Callback("watch", tell, ("watch",)))
    result.set(1)
    handler.dispatch_callback(Callback("watch", tell, ("later watch",)))
    here = threading.get_ident()
    assert told == [("watch", here), ("result", here), ("later watch", here)]
    handler.stop()
