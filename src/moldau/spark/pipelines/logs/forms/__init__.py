"""The formats of lines that are understood, each by a function of its own. Pure.

Which of them a line is of is decided by the line alone, never by what came before it: a batch that
is run again by another process must come out the same.

A form takes the whole record, a stack trace included, and gives None for what is not its own. Of
what it takes nothing is lost: what has no column of its own becomes a field.

Lines may be a megabyte of anything, so no expression here may try the same characters twice over:
what repeats is followed by what cannot be part of it.
"""
