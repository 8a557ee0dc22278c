"""One Spark session for the whole run, and the broker under test beside it.

Both formats live in the session: ours, found by itself, and Spark's own `kafka`, whose jars must
be there when the virtual machine starts. So every test with a session needs Java and the jars,
which are fetched before the first one as Apache Kafka's are. Where another PySpark is tried than
the one they are made for, tests that compare with the other format (`official`) are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import SPARK_CONNECTOR, jars
from kafka_harness.kinds import kind_under_test, make_broker
from spark.session import started_session
from spark.sink_drivers import CommittedRecords
from spark.standalone import Cluster, standalone_cluster

HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and run them last and together.

    A virtual machine of a gigabyte should not stand beside tests that have no use for it.
    """
    own = [item for item in items if HERE in item.path.parents]
    for item in own:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.java(SPARK_CONNECTOR))
    items[:] = [*(item for item in items if HERE not in item.path.parents), *own]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Return the broker under test: Moldau, or Apache Kafka by `MOLDAU_TEST_BROKER=kafka`."""
    settings = {"log.retention.ms": "-1"}  # records are as old as the tests say they are
    with make_broker(kind_under_test(), tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


HAS_CONNECTOR = f"spark-{pyspark.__version__}" == SPARK_CONNECTOR
"""Whether Spark's own connector, which is made for one PySpark, is for the one that runs here."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the one session; it knows `format("moldau")`, and `format("kafka")` if it can."""
    connector = jars(SPARK_CONNECTOR) if HAS_CONNECTOR else None
    with started_session(tmp_path_factory.mktemp("spark"), connector) as session:
        yield session


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster of Spark's with two workers; it idles beside the session."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def official(spark: SparkSession) -> str:
    """Return the name of Spark's own format, for tests that compare with it."""
    if not HAS_CONNECTOR:
        pytest.skip(f"{SPARK_CONNECTOR}, the connector there is, is not for {spark.version}")
    return "kafka"


@pytest.fixture(scope="session")
def committed_records(broker: BrokerProcess) -> Iterator[CommittedRecords]:
    """Return one reader of committed records, for all tests that want to know what there is."""
    reading = CommittedRecords(broker.address)
    yield reading
    reading.close()


@pytest.fixture
def committed(committed_records: CommittedRecords, topic: str) -> Callable[[], Counter[bytes]]:
    """Return what finds the values of the test's topic that readers of committed records see."""
    return lambda: committed_records.values(topic)
