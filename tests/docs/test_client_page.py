"""The client's pages: each example prints what its page shows, and defaults are the code's."""

import inspect
import re
from pathlib import Path

import pytest

from kafka_harness.moldau_node import MoldauNode
from moldau import Consumer, Producer

DOCS = Path(__file__).parents[2] / "docs"
SHOWN_ADDRESS = "127.0.0.1:9092"
EXAMPLE = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", re.DOTALL)
SETTING = re.compile(r"^\| (all|producer|consumer) \| `(\w+)` \| (?:`(.*?)`|) ?\|", re.MULTILINE)


@pytest.mark.parametrize("page", ["client", "client-recipes", "client-settings"])
def test_each_example_prints_what_the_page_shows(page, tmp_path, capsys):
    examples = EXAMPLE.findall((DOCS / f"{page}.md").read_text())
    assert len(examples) > 1
    with MoldauNode(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as broker:
        for code, shown in examples:
            exec(code.replace(SHOWN_ADDRESS, broker.address), {"__name__": "__main__"})
            assert capsys.readouterr().out == shown, code


def test_the_settings_that_are_listed_have_the_defaults_shown():
    rows = SETTING.findall((DOCS / "client-settings.md").read_text())
    assert len(rows) > 20
    for client, name, shown in rows:
        for kind in (Producer, Consumer):
            if client in ("all", kind.__name__.lower()):
                default = inspect.signature(kind).parameters[name].default
                empty = default in (None, "", ())
                assert shown == ("" if empty else str(default).replace("True", "true")), name
