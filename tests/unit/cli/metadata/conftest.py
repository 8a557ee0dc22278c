"""What tests of `moldau metadata` share: an empty simulated disk."""

from __future__ import annotations

import pytest

from moldau.sim.disk import SimDisk


@pytest.fixture
def disk(world):
    return SimDisk(world.random("disk"))
