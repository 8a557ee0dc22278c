"""`moldau metadata`: the metadata of a cluster as a tree, read from files.

    commands        the verbs, each in a module of its own: ls, cat, tree, find, log
    options         what every verb takes, and completing paths
    source          which files there are to read
    batches         the batches of a snapshot or a log, checked; damage is named
    state           what they add up to: the image, and the quorum
    contents        that, as folders and values
    folder          what a tree is made of, and finding a place in it
    record_fields   one record, as its type and fields
    printing        lines and JSON, one at a time

Nothing is asked of a node, and nothing is written: it works beside a running node, on a node that
does not start, and on a folder that somebody sent.
"""
