"""What stands around the Raft core: its log, its messages, its promises on disk, and the store.

    node          steps the core and carries out its effects, in their order; knows no records
    raft_log      the records: the journal and the snapshots, as the core moves them
    messages      requests and answers of the core, as messages of Kafka's protocol (`apis`)
    fetched_batches   what a leader has sent, as the core takes it
    control_records   who leads and who votes, as records of the log, and back
    quorum_file   `quorum-state`: what a node has promised
    peers         the port to the other nodes
    store         the metadata store of a node of the quorum: image, listeners, controllership
    prepared_commit   what the active controller commits, ready to be appended
    tenure        its right to commit, until another node leads

The core (`cluster/raft`) decides. Nothing here knows its rules, and it knows nothing of this.
"""
