"""Consumer groups and transactions: state machines on internal topics, and their runtime."""
