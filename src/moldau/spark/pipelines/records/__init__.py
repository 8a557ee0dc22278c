"""Records of a batch before they are filed: what every pipeline does with them, windows or not.

arriving      the time of the batch, which records are given, and how large they may be
json_objects  records that are one JSON object each
reasons       what is wrong with a record, in words, and when that is so of too many
gathering     rows that are computed once and then used several times
"""
