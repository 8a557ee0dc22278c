"""A ZooKeeper ensemble in memory, on virtual time, with the faults that clients have to survive.

`tree` is the state of one server, `pipe` one direction of a connection, `ensemble` the servers and
the sessions, `session` the side of a client: the port of `moldau.cluster.zookeeper`.
"""
