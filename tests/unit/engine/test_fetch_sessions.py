"""Fetch sessions: what the broker knows after a request is always what is wanted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.records import TopicPartition
from moldau.engine.fetch_sessions import NO_SESSION, FetchPosition, FetchSession
from moldau.protocol.errors import ErrorCode

A, B, C = (TopicPartition("t", index) for index in range(3))
ID, OTHER_ID = b"\1" * 16, b"\2" * 16


def want(offset, topic_id=ID):
    return FetchPosition(topic_id, offset, 0, 1000)


def opened(wanted):
    session = FetchSession()
    session.request(wanted)
    assert session.answered(ErrorCode.NONE, 77, wanted.keys())
    return session


def test_a_session_begins_with_everything():
    asked = FetchSession().request({A: want(0), B: want(0)})
    assert (asked.session_id, asked.epoch, asked.forget) == (0, 0, [])
    assert asked.send.keys() == {A, B}


def test_a_session_goes_on_with_what_changed():
    session = opened({A: want(0), B: want(0)})
    asked = session.request({A: want(5), C: want(0)})
    assert (asked.session_id, asked.epoch) == (77, 1)
    assert asked.send == {A: want(5), C: want(0)}
    assert asked.forget == [(ID, B)]


def test_epochs_count_up_and_begin_again_at_one():
    session = opened({A: want(0)})
    for epoch in (1, 2):
        assert session.request({A: want(0)}).epoch == epoch
        assert session.answered(ErrorCode.NONE, 77, [])
    session._epoch = 2**31 - 1
    session.request({A: want(0)})
    assert session.answered(ErrorCode.NONE, 77, [])
    assert session.request({A: want(0)}).epoch == 1


def test_without_a_session_everything_is_sent_every_time():
    session = FetchSession()
    for _ in range(2):
        asked = session.request({A: want(0)})
        assert (asked.session_id, asked.epoch, len(asked.send)) == (NO_SESSION, 0, 1)
        assert session.answered(ErrorCode.NONE, NO_SESSION, [A])


def test_a_topic_created_again_is_forgotten_and_asked_for_anew():
    session = opened({A: want(0)})
    asked = session.request({A: want(0, OTHER_ID)})
    assert asked.forget == [(ID, A)]
    assert asked.send == {A: want(0, OTHER_ID)}


def test_a_session_the_broker_has_forgotten_begins_again_without_its_id():
    session = opened({A: want(0)})
    session.request({A: want(0)})
    assert not session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])
    asked = session.request({A: want(0)})
    assert (asked.session_id, asked.epoch, len(asked.send)) == (0, 0, 1)


def test_after_an_error_or_a_loss_the_old_session_is_given_back():
    session = opened({A: want(0)})
    session.request({A: want(0)})
    assert not session.answered(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])
    assert session.request({A: want(0)})[:2] == (77, 0)
    assert session.answered(ErrorCode.NONE, 78, [A])
    session.lost()
    assert session.request({A: want(0)})[:2] == (78, 0)


def test_an_answer_that_does_not_fit_begins_the_session_again():
    session = FetchSession()
    session.request({A: want(0), B: want(0)})
    assert not session.answered(ErrorCode.NONE, 77, [A])  # a full answer names all
    session = opened({A: want(0)})
    session.request({A: want(0)})
    assert not session.answered(ErrorCode.NONE, 77, [B])
    session = opened({A: want(0)})
    session.request({A: want(0)})
    assert not session.answered(ErrorCode.NONE, 99, [])


wanted_maps = st.dictionaries(
    st.sampled_from([A, B, C]),
    st.builds(want, st.integers(0, 3), st.sampled_from([ID, OTHER_ID])),
    max_size=3,
)


class ModelBroker:
    """Keeps a session as KIP-227 says, by topic id and index."""

    def __init__(self):
        self.known = {}
        self.epoch = 0
        self.sessions = 0

    def serve(self, asked):
        if asked.epoch == 0:
            self.sessions += 1
            self.known, self.epoch = {}, 0
        elif asked.epoch != self.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0
        for topic_id, partition in asked.forget:
            self.known.pop((topic_id, partition), None)
        for partition, wanted in asked.send.items():
            self.known[wanted.topic_id, partition] = wanted
        self.epoch += 1
        return ErrorCode.NONE, self.sessions


@settings(max_examples=80)
@given(st.lists(st.tuples(wanted_maps, st.sampled_from(["fine", "lost", "unseen"]))))
def test_the_broker_knows_what_is_wanted_whatever_was_lost_before(rounds):
    session, broker = FetchSession(), ModelBroker()
    for wanted, fate in rounds:
        asked = session.request(wanted)
        if fate == "unseen":
            session.lost()
            continue
        error, session_id = broker.serve(asked)
        if fate == "lost":
            session.lost()
            continue
        if session.answered(error, session_id, wanted.keys()):
            assert broker.known == {(one.topic_id, key): one for key, one in wanted.items()}
        else:
            assert error is not ErrorCode.NONE
    asked = session.request({A: want(1)})
    error, session_id = broker.serve(asked)
    assert error is ErrorCode.NONE
