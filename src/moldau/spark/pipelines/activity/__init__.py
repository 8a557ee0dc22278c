"""The activity pipeline: page views and searches of users, counted per window of event time.

`docs/pipelines/activity.md` describes its input and its tables. One batch of the stream is handled
in two steps. `landing` sorts the records into events, late ones and dead letters, and appends them
to tables. `rollups` then counts what lies in the windows that the batch has closed, from the table
of events, and appends the results. What closes a window, and what makes an event late, is decided
in `closing` from what the batches held, never from a clock: a batch that is run again after a crash
comes out the same.
"""
