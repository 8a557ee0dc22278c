"""One codec a file, each with its library, so that a library is loaded by who uses its codec.

A file has two functions of the same shape as every other (`compression.Coder` says which). What
they share, the limit and the words of a refusal, stands in `inflating`.
"""
