"""Where several may write, a decision that comes too late is taken again on the newer image."""

from __future__ import annotations

import asyncio

import pytest

from kits.metadata_samples import topic_id
from moldau.cluster.changes import TopicCreated
from moldau.cluster.decisions import Decisions
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import StoreFailed, VersionConflict


class ContestedStore:
    """A store and its controllership; somebody else writes first, a number of times."""

    def __init__(self, rivals):
        self.image = MetadataImage()
        self.rivals = rivals

    async def commit(self, expected_version, changes):
        await asyncio.sleep(0)
        if self.rivals:
            self.rivals -= 1
            rival = TopicCreated(f"rival-{self.rivals}", topic_id(100 + self.rivals))
            self.image = self.image.apply([rival], self.image.version + 1)
            raise VersionConflict(expected_version, self.image.version)
        self.image = self.image.apply(changes, self.image.version + len(changes))
        return self.image.version


def test_a_decision_is_taken_again_until_it_comes_first():
    seen = []

    def decide(image):
        seen.append(image.version)
        return [TopicCreated("mine", topic_id(1))]

    store = ContestedStore(rivals=3)
    image = asyncio.run(Decisions(store, store).commit(decide))
    assert seen == [0, 1, 2, 3]
    assert set(image.topics) == {"mine", "rival-0", "rival-1", "rival-2"}


def test_a_decision_may_become_needless_through_a_rival():
    store = ContestedStore(rivals=1)

    def decide(image):
        return [] if "rival-0" in image.topics else [TopicCreated("mine", topic_id(1))]

    image = asyncio.run(Decisions(store, store).commit(decide))
    assert set(image.topics) == {"rival-0"}


def test_what_the_store_refuses_reaches_the_caller_and_frees_the_queue():
    class FailingOnce(ContestedStore):
        async def commit(self, expected_version, changes):
            if self.rivals:
                self.rivals = 0
                raise StoreFailed("gone")
            return await super().commit(expected_version, changes)

    async def main():
        store = FailingOnce(rivals=1)
        decisions = Decisions(store, store)
        with pytest.raises(StoreFailed):
            await decisions.commit(lambda image: [TopicCreated("a", topic_id(1))])
        return await decisions.commit(lambda image: [TopicCreated("b", topic_id(2))])

    assert set(asyncio.run(main()).topics) == {"b"}
