"""What tests of parts that wait, time out or try again share: virtual time."""

from __future__ import annotations

import pytest

from moldau.sim.world import World


@pytest.fixture
def world():
    """Virtual time, a clock and chance from one seed."""
    with World(1) as made:
        yield made
