"""A run of a pipeline from its start to its end, and what others learn of it meanwhile.

`frame` runs one pipeline, `together` several in one Spark. `desk` says who runs it, `progress` and
`exposition` how it goes, `failures` what has ended it, and `signals` when it is to end.
"""
