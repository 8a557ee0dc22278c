"""Pipelines that run for real: topics in, tables and topics out, for as long as they are let.

`catalog` names them, each is a `declaration` and a folder of its own; `frame` runs any of them:
one session, one table folder, one owner, an orderly end. `tables` holds how a batch of Spark's
becomes rows exactly once, `identity` why a table and a checkpoint that do not belong together are
refused.
"""
