"""The inside of the consumer: positions, fetching, decoding, and the membership of a group."""
