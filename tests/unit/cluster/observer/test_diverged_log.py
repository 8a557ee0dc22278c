"""A log that has left the leader's is cut where they part, or refused if that was committed."""

from __future__ import annotations

import pytest

from kits.observer_kit import (
    VOTERS_LOG,
    assert_same_log,
    catch_up,
    diverged,
    failure_of,
    fill,
    following,
    run,
)
from kits.sole_voter import created, put
from moldau.base.errors import InvariantViolated
from moldau.base.files import read_whole


def test_an_end_that_the_leader_does_not_have_is_cut_and_never_applied(cluster, disk):
    async def work():
        await diverged(cluster, disk)
        await cluster.stop_voter()
        await cluster.start_voter()
        await fill(cluster, 2, first=20)
        observer = cluster.new_observer(disk)
        seen = []
        observer.subscribe(lambda changes, image: seen.extend(changes))
        await observer.start()
        await observer.caught_up()
        assert observer.image == cluster.voter.image
        assert not {created(900), created(901)} & set(seen)
        await observer.close()

    run(cluster, work)
    assert_same_log(cluster, disk)


def test_an_end_of_the_present_epoch_beyond_the_leaders_is_cut(cluster, disk):
    async def work():
        await diverged(cluster, disk)
        await catch_up(cluster, disk)

    run(cluster, work)
    assert_same_log(cluster, disk)


def test_a_leader_without_what_was_committed_is_refused(cluster, disk):
    async def work():
        observer = await following(cluster, disk)
        await fill(cluster, 3)
        await cluster.caught_up(observer)
        image = observer.image
        # The voter comes back from an old copy of its disk, in a newer epoch.
        await cluster.stop_voter()
        log = read_whole(cluster.disk, VOTERS_LOG)
        put(cluster.disk, VOTERS_LOG, log[: len(log) * 2 // 3])
        await cluster.start_voter()
        with pytest.raises(InvariantViolated, match="with what is committed here up to"):
            await failure_of(observer)
        assert observer.image is image
        await observer.close()

    run(cluster, work)


def test_a_second_leader_of_the_same_epoch_is_not_believed(cluster, disk):
    class Impostor:
        """Says now and then that another node leads."""

        def __init__(self):
            self.count = 0

        async def close(self):
            pass

        async def fetch(self, request):
            answer = await cluster.source.fetch(request)
            self.count += 1
            if self.count > 3 and self.count % 2:
                answer.responses[0].partitions[0].current_leader.leader_id = 5
            return answer

    async def work():
        observer = await following(cluster, disk, source=Impostor())
        await fill(cluster, 5)
        await cluster.caught_up(observer)
        assert observer.leader_id == 1
        await observer.close()

    run(cluster, work)
