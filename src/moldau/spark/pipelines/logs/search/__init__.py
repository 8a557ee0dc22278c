"""Questions about the table `logs`, answered from its files without Spark.

The newest rows that match are wanted, and not more than some. So days are gone through from the
newest on, and in a day its row groups by their greatest times, until nothing older can be among
them. Before a row group is read it must have passed

    the folder      its date and level
    the footer      the least and greatest time, host and service of the row group
    the sketch      the texts and the fields, where the file has one (see `sketches`)
    the pages       the texts again, in what was decompressed and not taken apart (see `pages`)

and then the columns that are asked about are read one after the other, the cheap ones first, as
long as any row is left. If one is, what is shown of it is read with what it is sorted by. All this
happens in as many threads as there are cores; Arrow computes outside of Python's lock.

    question    what may be asked (pure)
    patterns    what is looked for in texts: the expression, and what is certain of it (pure)
    groups      files mapped into memory, and which of their row groups may match
    pages       whether texts occur in a column, told from its bytes
    rows        the rows of one row group, read column by column
    newest      the search: which row groups to read, in which order, until when
    following   the search again and again, for rows that have come since
"""

from __future__ import annotations

from moldau.spark.pipelines.logs.search.following import Follower, Look
from moldau.spark.pipelines.logs.search.newest import COLUMNS, Answer, Effort, search
from moldau.spark.pipelines.logs.search.question import Question

__all__ = ["COLUMNS", "Answer", "Effort", "Follower", "Look", "Question", "search"]
