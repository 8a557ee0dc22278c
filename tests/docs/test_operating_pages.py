"""The operating pages: their commands work in their order, and what they name is there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from kafka_harness.ports import free_port
from kits.local_cluster import ended_with_block, free_base_port
from kits.ops_files import metrics_asked_for
from kits.page_examples import Reader, sh_blocks
from moldau.server.configuration.broker_configs import BROKER_CONFIGS
from moldau.server.configuration.definition import ConfigDefinition, Status, format_value

CHECKOUT = Path(__file__).parents[2]
FOLDER = CHECKOUT / "docs" / "operating"
PAGES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.md"))}
SOURCE = re.sub(
    r'"\s*\n\s*f?"', "", "".join(path.read_text() for path in (CHECKOUT / "src").rglob("*.py"))
)
"""All source, with texts of several lines joined."""

OF_CLIENTS = {
    "auto.offset.reset",
    "fetch.min.bytes",
    "max.poll.interval.ms",
    "session.timeout.ms",
    "transaction.timeout.ms",
}
"""Settings that the pages name and that are not a broker's."""

SHORTEST_PIECE = 6
"""Shorter pieces of a quoted line are between two placeholders and say little."""


@pytest.fixture
def reader(tmp_path):
    """Somebody in an empty folder, whose clusters end with the test."""
    base, single, metrics = free_base_port(3), free_base_port(1), free_port()
    ports = {str(9092 + n): base + n for n in range(3)} | {"9192": single, "9404": metrics}
    with (
        ended_with_block(tmp_path / "cluster"),
        ended_with_block(tmp_path / "single"),
        ended_with_block(tmp_path / "watched"),
    ):
        yield Reader(tmp_path, ports)


def test_each_example_of_a_cluster_works(reader):
    """A rolling restart, then load, then backup and restore, of one cluster."""
    for name in ("upgrade", "sizing", "backup"):
        reader.follow(PAGES[name])
    assert reader.printed["moldau consume orders --exit"] == "plums\npears\n"
    folder = reader.folder / "cluster" / "broker-3" / "data"
    assert (folder / "orders-0" / "partition.metadata").exists()


def test_each_example_of_monitoring_works_and_a_broker_tells_every_metric_that_is_named(reader):
    reader.follow(PAGES["monitoring"])
    assert reader.printed["curl -s http://127.0.0.1:9404/readyz"] == "ready\n"
    page = reader.printed["curl -s http://127.0.0.1:9404/metrics"]
    told = {name for family in text_string_to_metric_families(page) for name in names_of(family)}
    named = re.findall(r"`((?:kafka|moldau|process)_[a-z_]*[a-z])`", "".join(PAGES.values()))
    asked = metrics_asked_for()
    assert len(named) > 15
    assert len(asked) > 40
    assert {*named, *asked} <= {*told, "up"}  # Prometheus itself says who is up
    assert (
        "moldau.server  DEBUG" in reader.printed["moldau config get broker-logger 1 moldau.server"]
    )


def names_of(family: Metric) -> tuple[str, ...]:
    """The names by which a query asks for a family."""
    suffixes = {"counter": ("_total",), "histogram": ("", "_bucket", "_sum", "_count")}
    return tuple(f"{family.name}{suffix}" for suffix in suffixes.get(family.type, ("",)))


def test_every_block_is_run_or_is_data():
    run = {"upgrade", "sizing", "backup", "monitoring"}
    assert all(sh_blocks(PAGES[name]) for name in run)
    for name, text in PAGES.items():
        kinds = re.findall(r"^```(\w*)\n", text, re.MULTILINE)
        assert set(kinds) <= {"sh", "yaml", "text", "pycon", ""}
        assert name in run or "sh" not in kinds


def test_the_arithmetic_is_right():
    text = PAGES["sizing"].replace("```", "")
    example = doctest.DocTestParser().get_doctest(text, {}, "sizing", "sizing.md", 0)
    result = doctest.DocTestRunner(verbose=False).run(example)
    assert result.attempted > 10
    assert not result.failed


def test_every_figure_of_sizing_is_the_one_of_its_page_of_results():
    rows = re.findall(
        r"^\| [^|]* \| ([\d.]+) [^|]* \| `([^`]+)` in (?:\[)?(\w+)", PAGES["sizing"], re.MULTILINE
    )
    assert len(rows) == 15
    for figure, work, page in rows:
        text = (CHECKOUT / "bench" / f"{page}.md").read_text()
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {work} |")]
        assert row.split("|")[4].split()[0] == figure, work


def test_the_samples_of_prometheus_are_yaml():
    (sample,) = re.findall(r"```yaml\n(.*?)```", PAGES["monitoring"], re.DOTALL)
    assert set(yaml.safe_load(sample)) == {"rule_files", "scrape_configs"}


def tuning_rows(section):
    """The first two cells of each row of a section, without the headings."""
    return re.findall(r"^\| (`.*?) \| (.*?) \|", section, re.MULTILINE)


def test_settings_that_matter_have_an_effect_and_the_defaults_that_are_shown():
    matter = PAGES["tuning"].split("\n## Without effect")[0]
    rows = tuning_rows(matter)
    assert len(rows) > 30
    for key, default in rows:
        definition = BROKER_CONFIGS[key.strip("`")]
        assert definition.status is Status.WORKS, key
        assert (format_value(definition.default) or "null") == default, key


def test_settings_without_effect_are_listed_with_the_reason_that_the_code_has():
    section = PAGES["tuning"].split("\n## Without effect")[1].split("\n## ")[0]
    rows = tuning_rows(section)
    assert len(rows) > 10
    for keys, reason in rows:
        for definition in configs(keys):
            assert (definition.status, definition.reason) == (Status.WITHOUT_EFFECT, reason)
    (refused,) = re.findall(r"^Some keys are refused.*$", section, re.MULTILINE)
    assert all(one.status is Status.REFUSED for one in configs(refused))


def configs(text: str) -> list[ConfigDefinition]:
    return [BROKER_CONFIGS[key] for key in re.findall(r"`([a-z.]+)`", text)]


@pytest.mark.parametrize("name", PAGES)
def test_every_setting_that_is_named_exists(name):
    named = re.findall(r"`([a-z]+(?:\.[a-z]+){2,})`", PAGES[name])
    assert set(named) - BROKER_CONFIGS.keys() <= OF_CLIENTS


def quoted_lines():
    """The lines of logs and commands that troubleshooting has, without level and `moldau:`."""
    page = PAGES["troubleshooting"]
    blocks = "".join(re.findall(r"```text\n(.*?)```", page, re.DOTALL)).splitlines()
    cells = re.findall(r"^\| `(.*?)` \|", page, re.MULTILINE)
    return [re.sub(r"^(?:ERROR|WARN|INFO|moldau:) ", "", line) for line in (*blocks, *cells)]


@pytest.mark.parametrize("line", quoted_lines())
def test_every_line_that_is_quoted_is_one_of_the_code(line):
    # The kernel's own words, and what a placeholder of the code may stand for.
    words = r"Address already in use|Connection refused\.|Too many open files"
    pieces = re.split(rf"<[^>]*>|{words}", line)
    for piece in pieces:
        text = piece.strip(" ,;:'\"")
        assert len(text) < SHORTEST_PIECE or text in SOURCE, text


def test_pages_are_short():
    for name, text in PAGES.items():
        assert text.count("\n") <= 250, name
