"""What a failure of the client is called decides whether a pipeline tries again."""

import traceback

import pytest

from moldau.base.errors import UserError
from moldau.client.errors import (
    BufferFull,
    DeliveryTimedOut,
    NoBrokerReachable,
    ProducerFenced,
    RecordTooLarge,
    RequestTimedOut,
    TopicAuthorizationFailed,
)
from moldau.spark.errors import WriteInterrupted
from moldau.spark.pipelines.running.failures import PipelineFailed
from moldau.spark.sink.held import told


def failed(error):
    """Return what is raised for a failure of the client, and what a pipeline makes of it."""
    with pytest.raises(UserError) as raised, told("rows could not be written"):
        raise error
    (line,) = traceback.format_exception_only(raised.value)
    return raised.value, PipelineFailed("live", f"Traceback\n  File x\n{line}")


@pytest.mark.parametrize("kind", [NoBrokerReachable, RequestTimedOut, DeliveryTimedOut, BufferFull])
def test_what_passes_by_itself_is_tried_again(kind):
    error, told_of = failed(kind("away"))
    assert isinstance(error, WriteInterrupted)
    assert not told_of.is_final
    assert str(told_of).startswith("the query live has failed: rows could not be written: ")
    assert "away" in str(told_of)


@pytest.mark.parametrize("kind", [RecordTooLarge, TopicAuthorizationFailed, ProducerFenced])
def test_what_the_user_has_to_change_is_final(kind):
    error, told_of = failed(kind("refused"))
    assert type(error) is UserError
    assert told_of.is_final
