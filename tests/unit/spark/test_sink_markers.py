"""What a marker says, and what follows from it."""

import pytest

from moldau.base.errors import UserError
from moldau.engine.murmur2 import partition_for_key
from moldau.spark.sink.markers import Marker, Verdict, decide, marker_place
from moldau.spark.sink.publication import Writer


@pytest.mark.parametrize(
    ("last", "batch_id", "verdict"),
    [
        (None, 0, Verdict.PUBLISH),
        (None, 7, Verdict.PUBLISH),
        (0, 0, Verdict.DONE),
        (4, 5, Verdict.PUBLISH),
        (4, 9, Verdict.PUBLISH),
        (4, 4, Verdict.DONE),
        (4, 3, Verdict.REFUSE),
    ],
)
def test_a_batch_is_published_after_the_last_one_only(last, batch_id, verdict):
    assert decide(None if last is None else Marker(last, 10), batch_id) is verdict


def test_a_marker_is_read_as_it_was_written():
    assert Marker.read(Marker(12, 34).written()) == Marker(12, 34)


@pytest.mark.parametrize(
    "value", [b"", b"12", b"{}", b'{"form": 2, "batch": 1, "rows": 1}', b"\xff"]
)
def test_what_is_no_marker_of_ours_is_refused(value):
    with pytest.raises(UserError, match="none that this version of Moldau can read"):
        Marker.read(value)


def test_a_querys_markers_stay_in_one_partition():
    assert marker_place("m", "query/x", 16) == ("m", partition_for_key(b"query/x", 16))


def test_streams_and_writes_of_one_name_do_not_meet():
    stream, write = Writer.of_query("x"), Writer.of_write("attempt", "x")
    assert stream.marker_key != write.marker_key
    assert stream.transactional_id != write.transactional_id


def test_runs_of_one_write_share_their_transactional_id():
    one, other = Writer.of_write("first", "x"), Writer.of_write("second", "x")
    assert one.transactional_id == other.transactional_id
    assert one.name != other.name


def test_writes_without_an_id_share_nothing():
    one, other = Writer.of_write("first", None), Writer.of_write("second", None)
    assert one.marker_key is None
    assert one.transactional_id != other.transactional_id


def test_what_is_there_already_is_told_with_what_may_be_left_out():
    stream, write = Writer.of_query("q"), Writer.of_write("attempt", "report")
    told = stream.repetition(Marker(3, 20), 25)
    assert "batch 3 of query q is there already and was not written again" in told
    assert "20 rows then, 25 now" in told
    assert "the checkpoint is older than that run" in told
    assert "write 3 of report is there already" in write.repetition(Marker(3, 20), 20)


def test_what_comes_after_a_later_one_is_refused_in_words_of_who_wrote_it():
    stream, write = Writer.of_query("q"), Writer.of_write("attempt", "report")
    assert "batch 3 of query q was refused, because batch 4" in str(stream.refusal(3, 4))
    assert "write 3 of report was refused, because 4" in str(write.refusal(3, 4))
