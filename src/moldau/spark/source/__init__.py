"""The reading half of the Spark connector: topics as tables and streams, in Arrow's columns."""
