"""How one process talks to a cluster: the floor that every client of the protocol stands on.

Owns connections and the handshake, the image of the cluster as its brokers tell it, the search for
leaders and coordinators, trying again, offsets looked up at leaders, and what a fetch brings, down
to columns. The client, Spark and the console stand on it; brokers use it to talk to each other.

Must not know who asks: no producer, no consumer, no membership in a group, no setting that only
their faces have. `settings` has the few that every connection needs.

    portal       an event loop in a thread, for callers that block
    cluster      the way in: metadata, coordinators, requests to brokers (links, connection, ...)
    retry        which failures pass, and what to ask anew
"""
