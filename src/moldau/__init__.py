"""Moldau: a replicated commit log that speaks Kafka's protocol and keeps Kafka's files."""

__version__ = "0.1.0.dev0"
