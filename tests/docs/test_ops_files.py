"""The dashboard and the alert rules: what they ask for is there, and each alert has its runbook.

That a running broker tells every metric that they name is part of `test_operating_pages.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kits.ops_files import DASHBOARD, RULES, metric_names

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "operating" / "monitoring.md").read_text()
GRID_WIDTH = 24


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ('sum by (job) (rate(a_total{job=~"x", b="c"}[5m])) > 0', {"a_total"}),
        ("histogram_quantile(0.99, sum by (le) (rate(b_bucket[$__rate_interval])))", {"b_bucket"}),
        ("a / on (instance) b and c", {"a", "b", "c"}),
    ],
)
def test_names_are_found_in_queries(query, names):
    assert metric_names(query) == names


def test_panels_have_their_own_number_and_place():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 40
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < GRID_WIDTH
        assert not cells & taken, panel["title"]
        taken |= cells


def test_each_panel_asks_the_data_source_that_was_chosen_for_the_brokers_that_were_chosen():
    chosen = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert chosen == {"datasource", "job", "instance"}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
            assert 'job=~"$job"' in target["expr"], panel["title"]
            assert metric_names(target["expr"])


def test_the_page_has_a_line_for_each_row_of_the_dashboard():
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    section = PAGE.split("\n## The dashboard")[1].split("\n## ")[0]
    assert re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE)[1:] == rows
    assert f"(`schemaVersion` {DASHBOARD['schemaVersion']})" in section


def test_each_alert_is_named_once_and_says_what_to_do():
    assert len({rule["alert"] for rule in RULES}) == len(RULES) > 20
    runbooks = (CHECKOUT / "docs" / "operating" / "troubleshooting.md").read_text()
    titles = re.findall(r"^## (.*)$", runbooks, re.MULTILINE)
    sections = {title.lower().replace(" ", "-") for title in titles}
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        page, _, section = rule["annotations"]["runbook"].partition("#")
        assert page == "docs/operating/troubleshooting.md"
        assert section in sections, rule["alert"]


def test_the_alerts_that_the_page_names_exist():
    named = set(re.findall(r"`(Moldau[A-Za-z]+)`", PAGE))
    assert named
    assert named <= {rule["alert"] for rule in RULES}
