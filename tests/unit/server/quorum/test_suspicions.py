"""How often the end of a broker's process is believed."""

from moldau.cluster.model import Broker
from moldau.server.quorum.suspicions import BELIEVED_MAX, Suspicions


def broker(broker_id, epoch):
    return Broker(broker_id, epoch, bytes(16))


def test_a_broker_that_is_back_each_time_is_left_to_its_session():
    suspicions, suspected = Suspicions(), broker(1, 7)
    for _ in range(BELIEVED_MAX):
        assert suspicions.is_believable(suspected)
        suspicions.believed(suspected)
    assert not suspicions.is_believable(suspected)


def test_a_new_life_of_a_broker_is_suspected_anew():
    suspicions = Suspicions()
    for _ in range(BELIEVED_MAX):
        suspicions.believed(broker(1, 7))
    assert suspicions.is_believable(broker(1, 8))
    suspicions.believed(broker(1, 8))
    assert suspicions.is_believable(broker(1, 8))


def test_one_broker_is_not_believed_less_for_the_sake_of_another():
    suspicions = Suspicions()
    for _ in range(BELIEVED_MAX):
        suspicions.believed(broker(1, 7))
    assert suspicions.is_believable(broker(2, 7))
