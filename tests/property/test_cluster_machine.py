"""Random brokers, elections, ISR changes and reassignments: no decision breaks a promise.

The machine takes the pure decisions of a controller and applies them to one image. Beside it, it
keeps for each partition which replicas hold all committed records, in the worst case: whenever
enough replicas are in sync, a record is committed that only those have. A clean leader must be one
of them.
"""

from __future__ import annotations

import random

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kits.metadata_samples import directory_id
from moldau.cluster.brokers import (
    BrokerRegistration,
    fence_broker,
    register_broker,
    unregister_broker,
)
from moldau.cluster.changes import PartitionChanged
from moldau.cluster.configs import alter_configs, min_insync_replicas
from moldau.cluster.elections import (
    elect_leaders,
    elect_preferred_leaders,
    elect_unclean_leaders,
)
from moldau.cluster.heartbeats import Heartbeat, answer_heartbeat
from moldau.cluster.image import MetadataImage
from moldau.cluster.isr_changes import IsrProposal, alter_partitions
from moldau.cluster.model import NO_LEADER, UNASSIGNED_DIRECTORY, ConfigResource, Endpoint
from moldau.cluster.reassignment import WantedReplicas, alter_reassignments
from moldau.cluster.record_codec import decode_record, encode_change
from moldau.cluster.topics import NewTopic, TopicDefaults, create_topic, delete_topic
from moldau.protocol.errors import ApiError, ErrorCode

LEVEL = 30
BROKERS = range(1, 5)
TOPIC = "a"

RARELY = 0.2

brokers = st.sampled_from(BROKERS)
flags = st.booleans()
minimums = st.sampled_from(["1", "2", "2", "3"])
assignments = st.lists(brokers, min_size=1, max_size=4, unique=True)


def directories(broker_id):
    return directory_id(broker_id), directory_id(broker_id + 100)


class ClusterMachine(RuleBasedStateMachine):
    """One image, and what is known to be true beside it."""

    def __init__(self):
        super().__init__()
        self.random = random.Random(1)
        self.image = MetadataImage()
        self.complete = {}
        """Replicas that hold all committed records; none after some were lost for good."""
        self.lost_disks = set()
        self.joined = {}
        """Who is in sync by the word of the leader in the decision that is taken."""

    @initialize(keeps_eligible=st.sampled_from([True, True, False]), minimum=minimums)
    def begin(self, keeps_eligible, minimum):
        self.image = MetadataImage(
            features={
                "metadata.version": LEVEL,
                "eligible.leader.replicas.version": int(keeps_eligible),
            }
        )
        for broker_id in BROKERS:
            self.register(broker_id, False)
            self.serve(broker_id)
        self.create([[1, 2, 3], [2, 3, 4]], minimum)

    @property
    def keeps_eligible(self):
        return bool(self.image.features.get("eligible.leader.replicas.version"))

    # Deciding

    def take(self, steps):
        """Carry a decision out; what was refused changes nothing."""
        answer, changes = None, []
        try:
            while True:
                step = next(steps)
                if step is not None:
                    changes.append(step)
        except StopIteration as end:
            answer = end.value
        except ApiError as error:
            self.joined = {}
            return error
        before = self.image
        version = before.version + len(changes)
        self.image = before.apply(changes, version)
        recorded = [decode_record(encode_change(change, LEVEL)) for change in changes]
        assert before.apply(recorded, version) == self.image
        touched = [c for c in changes if isinstance(c, PartitionChanged)]
        places = [(c.topic_id, c.index) for c in touched]
        assert len(set(places)) == len(places), "a partition is changed twice in one decision"
        for topic in self.image.topics.values():
            old = before.topic_by_id(topic.id)
            for partition in topic.partitions:
                place = topic.id, partition.index
                if old is None:
                    self.complete[place] = set(partition.isr)
                else:
                    self.compare(place, old.partitions[partition.index], partition)
                self.commit_records(topic, partition)
        self.joined = {}
        return answer

    def compare(self, place, old, new):
        if new == old:
            return
        assert new.partition_epoch > old.partition_epoch
        assert new.leader_epoch >= old.leader_epoch
        complete = self.complete[place]
        complete |= self.joined.get(place, set())
        if new.leader != old.leader:
            assert new.leader_epoch > old.leader_epoch
        if new.leader not in (NO_LEADER, old.leader):
            assert new.isr[0] == new.leader or len(new.isr) > 1
            on_record = {*old.isr, *old.eligible_leaders, *self.joined.get(place, ())}
            is_sole = new.replicas == (new.leader,)
            if new.recovering or is_sole:
                self.complete[place] = {new.leader}
            else:
                assert new.leader in on_record
                assert new.leader in complete or not complete & set(new.replicas)
                if not complete & set(new.replicas):
                    self.complete[place] = {new.leader}
        added = set(old.adding_replicas)
        under_way = new.adding_replicas or new.removing_replicas
        if added and added <= set(new.replicas) and not under_way:
            assert added <= set(new.isr), "a reassignment was completed too early"
        if set(old.replicas) - set(new.replicas):
            assert new.leader_epoch > old.leader_epoch
            self.complete[place] &= set(new.replicas)

    def commit_records(self, topic, partition):
        minimum = min(min_insync_replicas(self.image, topic.name), len(partition.replicas))
        if partition.leader != NO_LEADER and len(partition.isr) >= minimum:
            self.complete[topic.id, partition.index] = set(partition.isr)
        elif not self.keeps_eligible:
            # Nobody remembers who else holds everything.
            self.complete[topic.id, partition.index] &= set(partition.isr)

    def lose(self, broker_id, directory=None):
        """A broker loses its records, or those in one directory."""
        for topic in self.image.topics.values():
            for partition in topic.partitions:
                if broker_id in partition.replicas:
                    at = partition.directories[partition.replicas.index(broker_id)]
                    if directory in (None, at) and len(partition.replicas) > 1:
                        self.complete[topic.id, partition.index].discard(broker_id)

    # Brokers

    @rule(broker_id=brokers, clean=flags)
    def register(self, broker_id, clean):
        old = self.image.brokers.get(broker_id)
        clean = clean and old is not None and broker_id not in self.lost_disks
        if not clean:
            self.lose(broker_id)
        self.lost_disks.discard(broker_id)
        registration = BrokerRegistration(
            broker_id,
            self.image.version.to_bytes(16, "big"),
            (Endpoint("PLAINTEXT", f"host-{broker_id % 3}", 9092, 0),),
            directories(broker_id),
            None,
            old.epoch if clean else -1,
        )
        self.take(register_broker(self.image, registration))

    @rule(
        broker_id=brokers,
        fence=flags,
        shut_down=flags,
        caught_up=flags,
        failed=st.sampled_from([(), (), (0,), (1,), (0, 1)]),
    )
    def heartbeat(self, broker_id, fence, shut_down, caught_up, failed):
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return
        offline = tuple(directories(broker_id)[number] for number in failed)
        for directory in offline:
            self.lost_disks.add(broker_id)
            self.lose(broker_id, directory)
        heartbeat = Heartbeat(
            broker_id,
            broker.epoch,
            self.image.version if caught_up else broker.epoch - 1,
            fence,
            shut_down,
            offline,
        )
        answer = self.take(
            answer_heartbeat(self.image, heartbeat, is_shutdown_seen=self.random.random() < 0.5)
        )
        assert answer.is_fenced == self.image.brokers[broker_id].fenced
        assert answer.is_fenced or not answer.should_shut_down

    @rule(broker_id=brokers)
    def serve(self, broker_id):
        self.heartbeat(broker_id, False, False, True, ())

    @rule()
    def serve_all(self):
        """Everybody is back, and in sync as far as leaders can tell."""
        for broker_id in BROKERS:
            if broker_id not in self.image.brokers:
                self.register(broker_id, False)
            self.serve(broker_id)
        for partition in self.partitions():
            self.propose(partition, partition.replicas, False)

    @rule(broker_id=brokers)
    def fence(self, broker_id):
        self.take(fence_broker(self.image, broker_id))

    @rule(broker_id=brokers)
    def unregister(self, broker_id):
        if self.random.random() < RARELY:
            self.lose(broker_id)
            self.take(unregister_broker(self.image, broker_id))

    # Topics

    def create(self, replicas, minimum):
        chosen = {index: one[: len(replicas[0])] for index, one in enumerate(replicas)}
        configs = {"min.insync.replicas": minimum}
        wanted = NewTopic(TOPIC, assignments=chosen, configs=configs)
        defaults = TopicDefaults()
        error = self.take(steps(create_topic, self.image, wanted, defaults, self.random))
        if error is None:
            self.assign_directories()

    def assign_directories(self):
        """Let brokers say where new replicas lie."""
        for partition in self.partitions():
            places = tuple(
                directories(one)[self.random.randrange(2)] if at == UNASSIGNED_DIRECTORY else at
                for one, at in zip(partition.replicas, partition.directories, strict=True)
            )
            if places != partition.directories:
                topic_id = self.image.topics[TOPIC].id
                change = PartitionChanged(topic_id, partition.index, directories=places)
                self.take(iter([change]))

    @rule(replicas=st.lists(assignments, min_size=1, max_size=3), minimum=minimums)
    def create_anew(self, replicas, minimum):
        if self.random.random() < RARELY:
            self.take(steps(delete_topic, self.image, TOPIC))
        self.create(replicas, minimum)

    @rule(minimum=st.none() | minimums, unclean=st.sampled_from([None, "false", "true"]))
    def configure(self, minimum, unclean):
        settings = {"min.insync.replicas": minimum, "unclean.leader.election.enable": unclean}
        self.take(steps(alter_configs, self.image, ConfigResource(2, TOPIC), settings))
        for partition in self.partitions():
            # With another minimum those who were eligible are forgotten.
            on_record = {*partition.isr, *partition.eligible_leaders}
            self.complete[self.image.topics[TOPIC].id, partition.index] &= on_record

    # Partitions

    def partitions(self):
        topic = self.image.topic(TOPIC)
        return () if topic is None else topic.partitions

    def partition(self, data):
        assume(self.partitions())
        return self.image.topics[TOPIC], data.draw(st.sampled_from(self.partitions()))

    @rule(data=st.data(), recovering=flags)
    def alter_isr(self, data, recovering):
        _, partition = self.partition(data)
        wanted = data.draw(st.sets(st.sampled_from(partition.replicas)))
        self.propose(partition, wanted, recovering)

    def propose(self, partition, wanted, recovering):
        """The leader finds these replicas in sync, as far as they are alive."""
        if partition.leader == NO_LEADER:
            return
        topic = self.image.topics[TOPIC]
        alive = {one for one in (partition.leader, *wanted) if one in self.image.brokers}
        if self.random.random() > RARELY:
            alive = {one for one in alive if self.image.brokers[one].active}
        members = tuple((one, self.image.brokers[one].epoch) for one in sorted(alive))
        proposal = IsrProposal(
            topic.id,
            partition.index,
            partition.leader_epoch,
            partition.partition_epoch,
            members,
            recovering,
        )
        epoch = self.image.brokers[partition.leader].epoch
        self.joined = {(topic.id, partition.index): alive}
        (answer,) = self.take(alter_partitions(self.image, partition.leader, epoch, [proposal]))
        now = self.partitions()[partition.index]
        if not answer.error:
            assert (answer.leader, answer.isr) == (now.leader, now.isr)
            assert answer.partition_epoch == now.partition_epoch
            assert set(now.isr) <= alive
        elif answer.error is not ErrorCode.NEW_LEADER_ELECTED:
            assert now == partition

    @rule(preferred=flags)
    def elect(self, preferred):
        self.take(elect_leaders(self.image, None, preferred=preferred))

    @rule()
    def balance(self):
        assert not self.take(elect_preferred_leaders(self.image))

    @rule(by_default=flags)
    def elect_uncleanly(self, by_default):
        assert not self.take(elect_unclean_leaders(self.image, unclean_by_default=by_default))

    @rule(data=st.data(), replicas=st.none() | assignments, may_change=flags)
    def reassign(self, data, replicas, may_change):
        topic, partition = self.partition(data)
        wanted = None if replicas is None else tuple(replicas)
        self.take(
            alter_reassignments(
                self.image,
                [WantedReplicas(topic.name, partition.index, wanted)],
                may_change_replica_count=may_change,
            )
        )
        self.assign_directories()

    # What always holds

    @invariant()
    def partitions_make_sense(self):
        for topic in self.image.topics.values():
            for partition in topic.partitions:
                self.check_sets(partition)
                self.check_brokers(partition)
                minimum = min(min_insync_replicas(self.image, topic.name), len(partition.replicas))
                complete = self.complete[topic.id, partition.index] & set(partition.replicas)
                if complete:
                    assert {*partition.isr, *partition.eligible_leaders} <= complete
                assert self.keeps_eligible or not partition.eligible_leaders
                assert not partition.eligible_leaders or len(partition.isr) < minimum

    def check_sets(self, partition):
        assert partition.leader == NO_LEADER or partition.leader in partition.isr
        assert len(set(partition.replicas)) == len(partition.replicas)
        assert set(partition.isr) <= set(partition.replicas)
        assert set(partition.eligible_leaders) <= set(partition.replicas)
        assert not set(partition.isr) & set(partition.eligible_leaders)
        assert set(partition.adding_replicas) <= set(partition.replicas)
        assert set(partition.removing_replicas) <= set(partition.replicas)
        assert len(partition.directories) == len(partition.replicas)

    def check_brokers(self, partition):
        for broker_id in partition.isr:
            broker = self.image.brokers.get(broker_id)
            is_active = broker is not None and broker.active
            is_last = not self.keeps_eligible and partition.isr == (broker_id,)
            assert is_active or (is_last and partition.leader == NO_LEADER)


def steps(decide, *arguments):
    """A decision that returns its changes, as one that yields them."""
    yield from decide(*arguments)


ClusterMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestClusterMachine = ClusterMachine.TestCase
