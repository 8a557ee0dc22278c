"""Several real brokers on simulated machines: faults, clients, and what must always hold.

    outcome = run_cluster_seed(7)       # `scenario`

`swarm` draws the settings, `nodes` holds the machines, `nemesis` breaks them, `atlas` knows which
partitions may lose records, `writer` and `reader` are the clients, `claims` is what they were told,
`monitor` checks all brokers after every turn of the loop, `replica_checks` compares their logs now
and then, and `final_checks` looks at everything at the end.
"""
