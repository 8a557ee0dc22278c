"""The Raft core of the metadata quorum, as KRaft has it: it decides, and does nothing itself.

`RaftCore.step` takes an event and the time, and returns effects. Events are what has happened
outside: a request or an answer has arrived, something is durable, time has passed. Effects are what
the caller has to do, in their order: write, send, answer. The core knows no clock, no disk and no
socket. So a whole quorum runs inside one test, on a network and on disks that are as bad as the
test wants them.

    event --> core --> states            what a node is now: `states`, `transitions`, `life`
                       elections         pre-vote, vote, hand-over: `ballot`, `voting`, `elections`
                       leading           `commitment`, `voter_changes`
                       following         `divergence`
                       resending         what has to be sent again: `requests`, `wanted`
              <-- effects, held back until the quorum state before them is durable: `durable`

Two things are the caller's. It appends what the core tells it to, and reads it back: the core knows
the log by its epochs and offsets only (`log_position`). And it knows the addresses of nodes.
"""
