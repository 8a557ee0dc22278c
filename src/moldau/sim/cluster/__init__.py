"""Several real brokers on simulated machines: faults, clients, and what must always hold.

    outcome = run_cluster_seed(7)       # `scenario`

`swarm` draws the settings, `nodes` holds the machines, `nemesis` breaks them, `atlas` knows what
was broken beyond any promise, `writer` and `reader` are the clients, `claims` is what they were
told, `monitor` looks at all brokers after every turn of the loop, and `final_checks` at the end.
"""
