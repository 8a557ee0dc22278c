"""Tables to which every batch is appended once, in the form that a user wants.

`appending` writes the files of an append and has them committed; `file_log`, `iceberg` and `delta`
know what a commit is in their form, and `formats` chooses among them. `merging` makes few large
files of many small ones. Readers without Spark learn from `committed` which files count, and from
`arrow_files` which cannot be read.
"""
