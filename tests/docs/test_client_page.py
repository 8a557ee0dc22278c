"""The client's page: each example prints what the page says it prints, one after the other."""

import re
from pathlib import Path

from kafka_harness.moldau_node import MoldauNode

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
SHOWN_ADDRESS = "127.0.0.1:9092"
EXAMPLE = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", re.DOTALL)


def test_each_example_prints_what_the_page_shows(tmp_path, capsys):
    examples = EXAMPLE.findall(PAGE.read_text())
    assert examples
    with MoldauNode(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as broker:
        for code, shown in examples:
            exec(code.replace(SHOWN_ADDRESS, broker.address), {"__name__": "__main__"})
            assert capsys.readouterr().out == shown, code
