"""The log pipeline: lines of many formats in, one table to search, error rates and alerts out.

`docs/pipelines/logs.md` describes its input and its tables. In the order of a record's way:

    parsing   one line of whatever format becomes one row (pure; `forms` knows the formats)
    reading   has Spark's tasks do that, an Arrow batch at a time
    landing   appends rows to the table `logs`, late ones too, and counts them per window
    rates     what was counted per service and window; `alerts` says when that is too much (pure)
    layout    how large files look that small ones were merged into; `sketches` lie beside them
    search    answers questions about the table, without Spark
"""
