"""What the whole suite shares: getting Apache Kafka before the tests that need it.

A test marked `java("4.3.1", ...)` needs those versions. They are fetched before the first test,
because a first fetch takes minutes and a test has a timeout. Without Java, Maven or a way to the
jars such tests are skipped and say why; where `CI=true` says that nothing may be skipped
silently, they fail instead.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from kafka_harness.distribution import CURRENT, KafkaUnavailableError, jars
from kafka_harness.java import QUICK_START
from kafka_harness.kafka_node import KafkaNode
from kafka_harness.kinds import kind_under_test, release_of
from moldau.cli.frame.version import is_compiled

_MISSING = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make what stands beside `tests` importable, and a client that warns at import."""
    sys.path.append(str(config.rootpath))
    # Tests ask what Kafka does, and not how fast. So it needs half the time on a core to start.
    KafkaNode.machine = QUICK_START
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Run in the background of a shell. Whoever is started by a test has to hear Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Tests say what comes out, and not how soon: a machine may be busy with something else.
    unhurried = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("moldau", settings.default, **unhurried)
    settings.load_profile("moldau")
    # kafka-python reads its schemas in a way Python 3.11 has deprecated.
    config.addinivalue_line(
        "filterwarnings", "ignore:(open|read)_text is deprecated:DeprecationWarning"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Have no garbage looked for among thousands of tests: not while they are made, nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _needed(item: pytest.Item) -> list[str]:
    versions = [
        version for mark in item.iter_markers("java") for version in mark.args or (CURRENT,)
    ]
    release = release_of(kind_under_test())
    if release and "broker" in getattr(item, "fixturenames", ()):
        versions.append(release)
    return versions


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Fetch what the selected tests need, once, outside of any test's time."""
    missing: dict[str, str] = {}
    if not session.config.option.collectonly:
        for version in sorted({version for item in session.items for version in _needed(item)}):
            try:
                jars(version)
            except KafkaUnavailableError as reason:
                missing[version] = str(reason)
    session.config.stash[_MISSING] = missing


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot run here, or fail it where nothing may be skipped."""
    if item.get_closest_marker("patches") and is_compiled():
        pytest.skip("nothing can be put in the place of what is compiled")
    missing = item.config.stash[_MISSING]
    for version in _needed(item):
        if reason := missing.get(version):
            if os.environ.get("CI") == "true":
                pytest.fail(f"CI=true allows no skip: {reason}", pytrace=False)
            pytest.skip(reason)
