"""What every test of the server needs undone."""

import gc

import pytest

THRESHOLD = gc.get_threshold()


@pytest.fixture(autouse=True)
def _collect_garbage_as_always():
    """Full runs are put off while work is paused (`slices`), as it is where a test's loop ends."""
    gc.set_threshold(*THRESHOLD)
    yield
    gc.set_threshold(*THRESHOLD)
