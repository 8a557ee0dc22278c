"""Record bytes: batches, their records, codecs, control records, and the formats before them.

Everything here is a function of its arguments: no files, no sockets, no clock. The broker uses
`batch` alone on its hot path; whatever looks at single records is for clients, compaction and
conversion.
"""
