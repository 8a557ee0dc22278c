"""Partitions on a simulated disk, and fetches over them."""

from __future__ import annotations

import random

from kits import log_kit
from kits.log_kit import HandClock
from kits.partition_kit import make_partition
from moldau.base.ids import PartitionKey, TopicId
from moldau.replication.partitions import Partitions
from moldau.server.fetch.reading import Fetch
from moldau.server.fetch.sessions import INITIAL_EPOCH, SESSIONLESS, FetchSession, FetchSessions

ME = 1
FAR = 2**31 - 1


class Kit:
    """A broker's partitions on a simulated disk, and fetches over them."""

    def __init__(self, *names):
        self.disk = log_kit.Broker()
        self.partitions = Partitions()
        for number, name in enumerate(names, 1):
            self.add(name, number)
        self.sessions = FetchSessions(10, 120.0, HandClock(), random.Random(1))

    def add(self, name, number=99):
        key, topic_id = PartitionKey(name, 0), TopicId(bytes([number] * 16))
        log = self.disk.manager.open_or_create(key, topic_id, self.disk.config)
        self.partitions.add(make_partition(key, topic_id, log))

    def __getitem__(self, name):
        return self.partitions.get(name, 0)

    def append(self, name, *batches):
        """Append batches and let everybody know."""
        for batch in batches:
            log_kit.append(self[name].log, batch)
        self[name].advance()

    def session(self):
        return self.sessions.open(SESSIONLESS, INITIAL_EPOCH)

    def fetch(self, session, wanted=(), **limits):
        """Prepare a fetch; `wanted` says by topic where to read and how much."""
        for topic, (offset, max_bytes) in dict(wanted).items():
            session.reader(topic, 0).move(offset, max_bytes, -1, -1)
        settings = {
            "min_bytes": 1,
            "max_bytes": FAR,
            "committed_only": False,
            "follower": None,
            "hard_limit": False,
            "whole": not session.kept,
            "storage_failed": unexpected,
            "rebuild_index": unexpected,
        }
        return Fetch(session, self.partitions, **{**settings, **limits})


def unexpected(*errors):
    raise AssertionError(errors)


def once():
    """Return a session that lives for one request."""
    return FetchSession(SESSIONLESS, 0.0)


def sizes(found):
    """By topic, the bytes a fetch has found."""
    return {fetched.reader.topic: fetched.size for fetched in found if fetched.size}


def errors(found):
    return {fetched.reader.topic: fetched.error for fetched in found if fetched.error}
