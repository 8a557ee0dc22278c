"""The operations behind the commands, once for `moldau NOUN VERB` and for Kafka's own commands.

An operation takes values and a client, and returns values. It knows no options and no output: a
command parses its own options and prints the result in its own form.
"""
