"""The tables of Kafka's commands, to the last space."""

from __future__ import annotations

from moldau.cli.kafka.text_tables import Column, tabbed_table, table


def test_a_column_keeps_its_least_width_or_grows():
    columns = (Column("A", 4, grows=True), Column("B", 3), Column("C", 0))
    assert table(columns, [("longer", 12345, None), ("x", 1, "")]) == [
        "A      B   C",
        "longer 12345 -",
        "x      1   ",
    ]


def test_a_tab_stands_after_each_column():
    assert tabbed_table(("A", "LONG"), [("word", "x")]) == ["A   \tLONG\t", "word\tx   \t"]
