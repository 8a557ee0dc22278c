"""Where Moldau knowingly answers otherwise than Apache Kafka 4.3.1, and why."""

from __future__ import annotations

from .compare import Accepted

ACCEPTED: tuple[Accepted, ...] = ()
