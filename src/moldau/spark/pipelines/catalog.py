"""Every pipeline there is, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.changelog.declared import CHANGELOG
from moldau.spark.pipelines.declaration import Pipeline, checked
from moldau.spark.pipelines.logs.declared import LOGS
from moldau.spark.pipelines.metrics.declared import METRICS

PIPELINES: Final[Mapping[str, Pipeline]] = {
    one.name: checked(one) for one in (ACTIVITY, LOGS, METRICS, CHANGELOG)
}
