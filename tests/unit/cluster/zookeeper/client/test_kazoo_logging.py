"""kazoo's warnings, of which an outage makes thousands, are not for the log of a broker."""

from __future__ import annotations

import logging

from moldau.cluster.zookeeper.client.kazoo_logging import KazooLogger


def test_only_errors_keep_their_level(caplog):
    caplog.set_level(1)
    kazoo = KazooLogger(logging.getLogger("moldau.test"))
    kazoo.warning("Connection dropped: %s", "refused")
    kazoo.info("Connecting")
    kazoo.log(5, "sending")
    kazoo.error("a bug")
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        kazoo.exception("another")
    told = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert told == [
        (logging.DEBUG, "Connection dropped: refused"),
        (logging.DEBUG, "Connecting"),
        (5, "sending"),
        (logging.ERROR, "a bug"),
        (logging.ERROR, "another"),
    ]
    assert caplog.records[-1].exc_info is not None
