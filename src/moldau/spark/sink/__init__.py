"""Rows of Spark as records of topics.

`encoding` and `routing` make record batches of columns, `plain` writes them as they come, `staging`
and `publication` write those of a whole query or batch in one transaction. `batch` and `stream` are
what Spark sees of it.
"""
