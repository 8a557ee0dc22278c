"""Lets Spark discover `format("moldau")`.

For an unknown format, Spark imports every top-level package whose name starts with `pyspark_` and
looks for a `DefaultSource`. This package has only that name, because Spark imports it in every
session, also in those that never read a topic.
"""

from moldau.spark.provider import MoldauDataSource as DefaultSource

__all__ = ["DefaultSource"]
