"""What docs/spark.md shows works: its examples run, one after the other, as they stand there.

Beside the other tests with a session and not those of pages: a session is costly to start.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from kafka_harness.topics import create_topic, send
from spark.topic_rows import stored_rows

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SHOWN_ADDRESS = "127.0.0.1:9092"


@pytest.fixture(scope="module")
def _clicks(broker):
    create_topic(broker.address, "clicks", 2)
    for name in ("clicks.bad", "clicks.copy", "counts"):
        create_topic(broker.address, name, 1)
    send(broker.address, "clicks", [b'{"id": 1}', b"{bad", b'{"id": 2}'])


@pytest.mark.usefixtures("_clicks")
def test_a_view_in_sql_has_its_options_and_a_table_has_not(spark, broker):
    """Should Spark hand the options of a table over one day, the page is to say so."""
    (example,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    view = example.replace(SHOWN_ADDRESS, broker.address)
    table = view.replace("TEMPORARY VIEW clicks", "TABLE clicks_table")

    def count_rows(name, statement):
        spark.sql(statement)
        return spark.table(name).count()

    try:
        assert count_rows("clicks", view) == 3
        with pytest.raises(AnalysisException, match=r"kafka\.bootstrap\.servers"):
            count_rows("clicks_table", table)
    finally:
        spark.catalog.dropTempView("clicks")
        spark.sql("DROP TABLE IF EXISTS clicks_table")


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
