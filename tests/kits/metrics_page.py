"""A broker's metrics page, read as Prometheus reads it."""

from __future__ import annotations

import urllib.error
import urllib.request
from http import HTTPStatus

from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]


def scrape(page: str) -> dict[tuple[str, Labels], float]:
    """Return what the page says, by name and labels."""
    with urllib.request.urlopen(f"http://{page}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape_if_ready(page: str) -> dict[tuple[str, Labels], float]:
    """Return what the page says; nothing while the broker starts or stops.

    A broker answers the first requests of clients a moment before its page is there.
    """
    try:
        return scrape(page)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return {}
