"""Streams of bytes over this machine's network, for brokers and clients alike."""
