"""A client that keeps offsets in a group without being a member, as tools and simple readers do."""

from __future__ import annotations

import asyncio

from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.sim.group_history import GroupHistory
from moldau.sim.offset_history import Commit
from moldau.sim.workload.client import Link
from moldau.sim.workload.coordinated import Coordinated, CoordinatorKind
from moldau.sim.workload.targets import Targets, TopicTarget

VERSIONS = (1, 2, 5, 8, 9)
PAUSE_S = 0.05


class Committer(Coordinated):
    """Commits and reads back, alone or with others that do the same."""

    def __init__(self, targets: Targets, name: str, group: str) -> None:
        super().__init__(targets, name)
        self._group = group

    async def work(self, link: Link) -> None:
        await self.find(link, CoordinatorKind.GROUP, self._group)
        history = self.targets.group(self._group)
        # What was there before comes first: a commit would cover up that it is gone.
        checked = False
        while not self.finished:
            if not checked:
                checked = await self.check_offsets(link, history)
            elif self.chance.random() < 0.7:
                await self._commit(link, history)
            else:
                await self.check_offsets(link, history)
            await asyncio.sleep(self.chance.expovariate(1 / PAUSE_S))

    async def _commit(self, link: Link, history: GroupHistory) -> None:
        some = self.chance.sample(sorted(history.offsets), self.chance.randint(1, 2))
        commits = {index: history.offsets[index].begin() for index in some}
        request = commit_request(self._group, self.targets.kept, commits)
        response = await link.call(request, self.chance.choice(VERSIONS))
        for result in response.topics[0].partitions:
            if result.error_code:
                self.check_passes("a commit", result.error_code)
            else:
                history.offsets[result.partition_index].acknowledged(
                    commits[result.partition_index]
                )
                self.targets.seen["offset committed"] += 1

    async def check_offsets(self, link: Link, history: GroupHistory) -> bool:
        """Read everything back; False if that is not possible now."""
        asked = {index: offset.ask() for index, offset in history.offsets.items()}
        found = await self.read_offsets(link, self._group)
        for index, offset in (found or {}).items():
            history.offsets[index].read(asked[index], offset)
            self.targets.seen["offset read"] += 1
        return found is not None


def commit_request(
    group: str, topic: TopicTarget, commits: dict[int, Commit]
) -> OffsetCommitRequest:
    """Ask for offsets of one topic to be kept, as nobody in particular."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=commit.offset, committed_metadata=""
        )
        for index, commit in commits.items()
    ]
    named = OffsetCommitRequestTopic(topic.name, topic.id, partitions)
    return OffsetCommitRequest(group, topics=[named])
