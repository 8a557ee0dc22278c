"""How one process talks to a cluster: the floor that every client of the protocol stands on.

Owns connections and the handshake, the image of the cluster as its brokers tell it, the search for
leaders and coordinators, trying again, offsets looked up at leaders, and what a fetch brings, down
to columns. The client and Spark stand on it; brokers may, and may not import the client.

Must not know who asks: no producer, no consumer, no membership in a group, no setting that only
their faces have. `settings` has those that every connection needs.

    cluster           the way in: metadata, coordinators, requests to brokers
    links, link, connection, handshake    one connection a broker and lane, and what it agreed on
    retry, asking     trying again: one question, or one about many items
    offset_lookup     where logs begin and end, and what was written at a time
    group_offsets     offsets committed in a group's name
    fetch_requests, fetch_sessions        what to say in a fetch
    fetched_batches   which batches of the answer came whole, and which of those count
    arrow_answer      the same as columns; `arrow_batches` says what they look like
    portal            an event loop in a thread, for callers that block
"""
