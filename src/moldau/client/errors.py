"""Everything a client raises, as one tree.

    MoldauError
    `-- ClientError
        |-- BrokerError             an error code, from a broker or found by the client
        |   |-- RequestTimedOut, RecordTooLarge, OffsetOutOfRange, UnsupportedVersion, ...
        |-- ConnectionLost, NoBrokerReachable, CorruptAnswer
        |-- SerializationFailed, BufferFull, DeliveryTimedOut, DeliveryAborted
        |-- NoOffset, LogTruncated, CommitFailed
        `-- ConcurrentUse, ClientClosed, ClientFailed, InvalidState, InvalidArgument,
            InvalidSetting

Each error has four attributes: `what` happened, `advice` on what to do, `retriable` (the same call
may succeed later without a change) and `fatal` (the client can no longer be used). Users import
errors from `moldau.errors`.

Broker and client use the same class for the same reason: `except RecordTooLarge` catches both. This
module re-exports the errors of connections and error codes from the engine.
"""

# ruff: noqa: N818 - an exception here is named for what happened, as the protocol names its codes

from __future__ import annotations

from moldau.engine.broker_errors import *  # noqa: F403 - every code is a name of this module
from moldau.engine.errors import *  # noqa: F403 - as above
from moldau.engine.errors import ClientError

# Producing


class SerializationFailed(ClientError):
    """A serializer, deserializer or partitioner failed; its exception is the cause."""

    advice = "Check that the serializer accepts the type of the key or value."


class BufferFull(ClientError):
    """The producer's buffer stayed full for max_block_ms."""

    retriable = True
    advice = "Send slower, wait with drain(), or raise buffer_memory or max_block_ms."


class DeliveryTimedOut(ClientError):
    """A record was not acknowledged within delivery_timeout_ms; it may still have been written."""

    retriable = True
    advice = "Check that the partition has a leader and enough in-sync replicas."


class DeliveryAborted(ClientError):
    """A record was not sent: its transaction was aborted, or the producer was closed."""

    advice = "Send the record again if you still need it."


# Consuming


class NoOffset(ClientError):
    """A partition has no committed offset, and auto_offset_reset is none."""

    advice = "Seek, commit an offset first, or set auto_offset_reset to earliest or latest."


class LogTruncated(ClientError):
    """The log lost records that had been consumed (KIP-320): an unclean leader election."""

    advice = "Seek to an offset of your choice; the cluster has lost acknowledged records."


class CommitFailed(ClientError):
    """The member is no longer in the group; its partitions belong to other members."""

    advice = "Process fewer records between polls, or raise max_poll_interval_ms."


# The order of calls


class ConcurrentUse(ClientError):
    """Two tasks or threads used one client at the same time."""

    advice = "Give each its own client, or use a lock."


def _name_in_tracebacks() -> None:
    """Have tracebacks name every error by the module that users import it from."""
    for one in tuple(globals().values()):
        if isinstance(one, type) and issubclass(one, ClientError):
            one.__module__ = "moldau.errors"


_name_in_tracebacks()
