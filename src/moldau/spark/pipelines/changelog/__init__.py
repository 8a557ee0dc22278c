"""The changelog pipeline: a topic of keyed changes becomes a table of what is the case now.

    fields    JSON objects become columns; types only ever widen (pure)
    version   which files are the table after a batch, and when they are merged (pure)
    landing   records become changes and dead letters
    store     the files of versions: written, replaced, cleared up
    querying  the current state on Spark
    reading   the current state without Spark
    batches   the loop: one version after each batch

A version is a list of files: a base, sorted by key, and changes since. A batch adds the changes it
brought; once in a while changes are merged into the base. The file that holds the list is written
with one rename, and this is the commit.
"""
