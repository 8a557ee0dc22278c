"""What pipelines with windows of event time have in common.

Such a pipeline takes batches of records. Each record is one of three things: a row on time, a row
whose window was closed before it came, or a dead letter. Rows on time are counted, once and for
all, when their windows are closed. In this order:

    landing   files the rows of a batch: on time, late, dead letters
    closing   decides what is late and which windows are over (pure)
    reading   the filed rows of windows that are over
    filing    appends rows to tables exactly once; `gathered` computes them once before
    batches   the loop: takes one batch after the other and keeps a state for each

What comes before, from `with_now(records)` to the pipeline's own parser, is in `records`.

A pipeline gives its parser, its columns, and a function that counts the rows of closed windows:

    tables = {name: stage.table(name) for name in MINE.tables}
    filing = Filing(tables)
    landing = Landing(filing, "samples", columns=(...), sources=("host",), bad_ratio=..., ...)

    def close(state: State, closing: Closing) -> State:
        rows = rows_of(stage.spark, tables["samples"], SCHEMA, closing, window_ms)
        if rows is None:
            return state
        with gathered(rows.groupBy("window_start", "host").agg(...)) as counts:
            return filing.file(state, counts, [Share("rates", columns={...})])

    batches = Batches(stage, landing, close, window_ms=window_ms, delay_ms=delay_ms)
    rows = parsed(with_now(stage.records(RECORD_SIZE_MAX)))
    return [stage.started(LANDING, rows.writeStream.foreachBatch(batches.take))]
"""
