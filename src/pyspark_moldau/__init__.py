"""Where Spark finds Moldau by itself.

Before it gives up on an unknown format, Spark imports every top-level package whose name begins
with `pyspark_` and asks it for a `DefaultSource`. So this package holds that name and nothing else:
it is imported in every session of a machine, also in those that never read a topic.
"""

from moldau.spark.provider import MoldauDataSource as DefaultSource

__all__ = ["DefaultSource"]
