"""Groups and transactions: state machines on internal topics, and the runtime they run in."""
