"""What lies in `ops`: the dashboard, the alert rules, and the metrics that both ask for.

Names of metrics are found in queries without parsing the whole language of Prometheus.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import yaml

_OPS = Path(__file__).parents[2] / "ops"

DASHBOARD: Final[dict[str, Any]] = json.loads((_OPS / "grafana" / "moldau.json").read_text())

_ALERTS = yaml.safe_load((_OPS / "prometheus" / "alerts.yml").read_text())
RULES: Final[list[dict[str, Any]]] = [
    rule for group in _ALERTS["groups"] for rule in group["rules"]
]

_NO_NAMES = re.compile(
    r"\"[^\"]*\"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)"
)
"""Strings, labels, times, and the labels that are grouped by."""

_NAME = re.compile(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()")
"""A name that is not the one of a function."""

_WORDS = {"and", "or", "unless", "bool", "offset"}


def metric_names(query: str) -> set[str]:
    """Return the metrics that a query asks for."""
    return set(_NAME.findall(_NO_NAMES.sub(" ", query))) - _WORDS


def metrics_asked_for() -> set[str]:
    """Return the metrics that the dashboard and the alert rules ask for."""
    queries = [rule["expr"] for rule in RULES]
    for panel in DASHBOARD["panels"]:
        queries += [target["expr"] for target in panel.get("targets", ())]
    return {name for query in queries for name in metric_names(query)}
