"""How the nodes of a cluster talk to each other: joining, heartbeats, forwarded requests."""
