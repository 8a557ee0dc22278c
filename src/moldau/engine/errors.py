"""What can go wrong between a client of the protocol and its brokers.

    MoldauError
    `-- ClientError
        |-- BrokerError          a code of the protocol: stands in `broker_errors`
        |-- ConnectionLost, NoBrokerReachable, CorruptAnswer
        `-- ClientClosed, ClientFailed, InvalidState, InvalidArgument, InvalidSetting

Each says what happened, whether the same call may succeed later without anybody's doing
(`retriable`), whether the client that raised it is of no more use (`fatal`), and what to do about
it in one line (`advice`). Errors of one kind of client stand beside it: `client.errors` has those
of producers and consumers.
"""

# ruff: noqa: N818 - an exception here is named for what happened, as the protocol names its codes

from __future__ import annotations

from moldau.base.errors import ConfigError, MoldauError


class ClientError(MoldauError):
    """Something a client could not do."""

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
    """A connection ended or could not be made; whether what was sent took effect is unknown."""

    retriable = True
    advice = "Look whether the broker runs and can be reached."


class NoBrokerReachable(ClientError):
    """None of the brokers that are known could be reached."""

    retriable = True
    advice = (
        "Check bootstrap_servers, and that the address each broker gives out"
        " (advertised.listeners) can be reached from here."
    )


class CorruptAnswer(ClientError):
    """A broker sent bytes that are not the protocol."""

    advice = "Check that the port is a broker's plaintext listener and that nothing in between is."


class ClientClosed(ClientError):
    """The client has been closed."""

    fatal = True
    advice = "Make a new one."


class ClientFailed(ClientError):
    """Work in the background ended by an error that is no one's to expect; it is the cause."""

    fatal = True
    advice = "Close this client and make a new one; report the cause with its traceback."


class InvalidState(ClientError):
    """A call came out of order."""

    advice = "Check the order of calls."


class InvalidSetting(ClientError, ConfigError):
    """A setting of a client is unknown, cannot be read, or contradicts another."""

    advice = "Settings have Kafka's names and values."

    def __str__(self) -> str:
        return self.what  # which names the setting, and the one that is meant


class InvalidArgument(ClientError, TypeError, ValueError):
    """An argument is of the wrong type, or has a value that cannot be."""

    advice = "Check the argument against the signature of the call."
