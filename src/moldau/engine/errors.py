"""Errors between a client and its brokers.

    MoldauError
    `-- ClientError
        |-- BrokerError          an error code; defined in `broker_errors`
        |-- ConnectionLost, NoBrokerReachable, CorruptAnswer
        `-- ClientClosed, ClientFailed, InvalidState, InvalidArgument, InvalidSetting

Each error has four attributes: `what` happened, `advice` on what to do, `retriable` (the same call
may succeed later without a change) and `fatal` (the client can no longer be used). The errors of
producers and consumers are in `client.errors`.
"""

# ruff: noqa: N818 - an exception here is named for what happened, as the protocol names its codes

from __future__ import annotations

from moldau.base.errors import ConfigError, MoldauError


class ClientError(MoldauError):
    """The base class of all errors of a client."""

    retriable: bool = False
    fatal: bool = False

    def __init__(self, what: str, *, advice: str | None = None) -> None:
        super().__init__(what)
        if advice is not None:
            self.advice = advice

    @property
    def what(self) -> str:
        """What happened, without the advice."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        what = self.what
        if not self.advice:
            return what
        stop = "" if what.endswith((".", "!", "?")) else "."
        return f"{what}{stop} {self.advice}"


class ConnectionLost(ClientError):
    """A connection failed; requests in flight may have taken effect."""

    retriable = True
    advice = "Check that the broker is running and reachable."


class NoBrokerReachable(ClientError):
    """No known broker could be reached."""

    retriable = True
    advice = (
        "Check bootstrap_servers, and that the address each broker advertises"
        " (advertised.listeners) can be reached from here."
    )


class CorruptAnswer(ClientError):
    """A broker sent bytes that are not Kafka's protocol."""

    advice = "Check that the port is a broker's plaintext listener, without a proxy in between."


class ClientClosed(ClientError):
    """The client has been closed."""

    fatal = True
    advice = "Create a new client."


class ClientFailed(ClientError):
    """A background task failed unexpectedly; its exception is the cause."""

    fatal = True
    advice = "Close this client and create a new one; report the cause with its traceback."


class InvalidState(ClientError):
    """The client is not in a state that allows this call."""

    advice = "Check the order of calls."


class InvalidSetting(ClientError, ConfigError):
    """A setting of a client is unknown, malformed or contradicts another."""

    advice = "Use Kafka's names and values."

    def __str__(self) -> str:
        return self.what  # which names the setting, and the one that is meant


class InvalidArgument(ClientError, TypeError, ValueError):
    """An argument has the wrong type or an invalid value."""

    advice = "Check the argument against the signature of the call."
