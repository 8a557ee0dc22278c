"""Pipelines that run for real: topics in, tables and topics out, for as long as they are let.

`catalog` names them; each is a `declaration` and a package of its own. `running` runs any of them,
in a `session` of Spark's, and gives it a `stage`: its options, its places and its `tables`. What
becomes of `records` is much the same in all of them, and more of it in those with windows
(`windowed`). `identity` says why a table and a checkpoint that do not belong together are refused,
`checkpoints` why an older one is.
"""
