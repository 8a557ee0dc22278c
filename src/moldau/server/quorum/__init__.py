"""The other nodes of the metadata quorum, as the server reaches and watches them.

    quorum_store     the metadata store of such a node, made from its settings
    quorum_parts     its other parts: how it takes part, and is the controller when it leads
    quorum_routes    what it serves to the other nodes
    voter_addresses  where the voters are, as the log or the settings name them
    peers            sends the requests of this node and returns the answers
    peer_links       the connections for that: one for votes and one for fetches to each node
    node_watches     notices at once that a voter's process is gone
    voter_probe      asks a node that is to become a voter which versions it supports
    own_registration  tells the active controller of the controller in this process
    suspicions   how often the end of a broker's process is believed

What is said to them, and when, is decided in `cluster/raft` and translated in `cluster/kraft`. What
they say to this node arrives in `handlers/raft.py`.
"""
