"""What docs/spark.md shows works: its examples run, one after the other, as they stand there.

Beside the other tests with a session and not those of pages: a session is costly to start.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_harness.topics import create_topic, send
from spark.topic_rows import stored_rows

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SHOWN_ADDRESS = "127.0.0.1:9092"


@pytest.fixture
def _clicks(broker):
    create_topic(broker.address, "clicks", 2)
    for name in ("clicks.bad", "clicks.copy", "counts"):
        create_topic(broker.address, name, 1)
    send(broker.address, "clicks", [b'{"id": 1}', b"{bad", b'{"id": 2}'])


@pytest.mark.usefixtures("_clicks")
def test_the_examples_of_the_page_on_spark_run(spark, broker, committed_records, tmp_path, capsys):
    names = {"spark": spark, "place": str(tmp_path)}
    assert len(EXAMPLES) == 6
    try:
        for example in EXAMPLES:
            exec(example.replace(SHOWN_ADDRESS, broker.address), names)
            for query in spark.streams.active:
                query.processAllAvailable()
    finally:
        for query in spark.streams.active:
            query.stop()

    assert [row.id for row in names["good"].orderBy("id").collect()] == [1, 2]
    assert [row.value for row in stored_rows(broker.address, "clicks.bad")] == [b"{bad"]
    assert len(stored_rows(broker.address, "clicks.copy")) == 3
    assert committed_records.values("counts") == {b"3": 1}
    assert capsys.readouterr().out == "0 0\n"
