"""What tests of whole processes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from process.clusters import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Return three brokers that notice within two seconds that another is gone."""
    with Cluster(tmp_path) as running:
        yield running
