"""Everything a client raises, as one tree.

    MoldauError
    `-- ClientError
        |-- BrokerError             a code of the protocol: said by a broker, or found out here
        |   |-- RequestTimedOut, RecordTooLarge, OffsetOutOfRange, UnsupportedVersion, ...
        |-- ConnectionLost, NoBrokerReachable, CorruptAnswer
        |-- SerializationFailed, BufferFull, DeliveryTimedOut, DeliveryAborted
        |-- NoOffset, LogTruncated, CommitFailed
        `-- ConcurrentUse, ClientClosed, ClientFailed, InvalidState, InvalidArgument,
            InvalidSetting

Each says what happened, whether the same call may succeed later without anybody's doing
(`retriable`), whether the client that raised it is of no more use (`fatal`), and what to do about
it in one line (`advice`). `moldau.errors` has all of them for users.

What a broker refuses and what the client refuses by itself for the same reason have one name:
`except RecordTooLarge` catches both. Those that have to do with connections and codes come from the
engine; this module has them too, so that users need no other.
"""

# ruff: noqa: N818 - an exception here is named for what happened, as the protocol names its codes

from __future__ import annotations

from moldau.engine.broker_errors import *  # noqa: F403 - every code is a name of this module
from moldau.engine.errors import *  # noqa: F403 - as above
from moldau.engine.errors import ClientError

# Producing


class SerializationFailed(ClientError):
    """A serializer or deserializer raised; its exception is the cause."""

    advice = "Check that the serializer fits the type of what it is given."


class BufferFull(ClientError):
    """No room was left in the producer's buffer within max_block_ms."""

    retriable = True
    advice = "Send slower, wait with drain(), or raise buffer_memory or max_block_ms."


class DeliveryTimedOut(ClientError):
    """A record was not acknowledged within delivery_timeout_ms; it may still have been written."""

    retriable = True
    advice = "Check that the partition has a leader and enough in-sync replicas."


class DeliveryAborted(ClientError):
    """A record was given up: its transaction was aborted, or the producer closed before."""

    advice = "Send the record again if it is still wanted."


# Consuming


class NoOffset(ClientError):
    """A partition has no committed offset, and auto_offset_reset is none."""

    advice = "Seek, commit an offset first, or set auto_offset_reset to earliest or latest."


class LogTruncated(ClientError):
    """The log lost records that had been consumed (KIP-320): an unclean leader election."""

    advice = "Decide where to go on and seek there; the cluster has lost what it acknowledged."


class CommitFailed(ClientError):
    """The member has left the group, so its partitions and their offsets belong to others now."""

    advice = "Process less between polls, or raise max_poll_interval_ms."


# The order of calls


class ConcurrentUse(ClientError):
    """Two tasks or threads use at once what is for one."""

    advice = "Give each its own client, or take turns."


def _name_in_tracebacks() -> None:
    """Have tracebacks name every error by the module that users import it from."""
    for one in tuple(globals().values()):
        if isinstance(one, type) and issubclass(one, ClientError):
            one.__module__ = "moldau.errors"


_name_in_tracebacks()
