"""Log lines: one event a line on stderr, in Kafka's look or as JSON for collectors.

Text that came from a peer is escaped and cut, so that nobody can forge a line or flood the log.
"""

from __future__ import annotations

import json
import logging
import sys
import time

LINE_MAX = 2000
"""Characters of one message; a longer one is cut, a traceback is not."""

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING}
FORMATS = ("text", "json")


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    if len(text) > LINE_MAX:
        text = text[:LINE_MAX] + "..."
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


class TextFormatter(logging.Formatter):
    """`[2026-11-15 12:00:00,123] INFO what happened (moldau.server.broker)`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line, and the traceback of a bug behind it."""
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        line = f"[{clock},{int(record.msecs):03d}] {level} {_message(record)} ({record.name})"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one object; a traceback is a field of it."""
        entry = {
            "time": round(record.created, 3),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def configure_logging(level: str, form: str) -> None:
    """Send every log line to stderr in this form, from this level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=LEVELS[level], handlers=[handler], force=True)
