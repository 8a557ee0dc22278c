"""Drawn ids are UUIDs of version 4, decided by the seed, and fit for a command line."""

from __future__ import annotations

import random
import uuid

from moldau.base.ids import random_uuid, uuid_bytes, uuid_text


def test_ids_are_random_uuids_decided_by_the_seed():
    drawn = [random_uuid(random.Random(seed)) for seed in range(300)]
    assert len(set(drawn)) == 300
    assert all(uuid.UUID(bytes=value).version == 4 for value in drawn)
    assert random_uuid(random.Random(5)) == drawn[5]


def test_the_text_of_an_id_never_looks_like_an_option():
    draws = iter([b"\xf8" + bytes(15), b"\xfb" + bytes(15), bytes(range(16))])

    class Stubborn:
        def randbytes(self, count):
            return next(draws)

    value = random_uuid(Stubborn())
    assert value[0] == 0
    assert not uuid_text(value).startswith("-")
    assert uuid_bytes(uuid_text(value)) == value
