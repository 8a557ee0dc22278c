"""The way to a ZooKeeper ensemble.

`port` says what we ask of ZooKeeper. `kazoo_session` implements it with kazoo, for a real ensemble;
`moldau.sim.zookeeper` implements it in memory, on virtual time. `connect_string` reads the setting
`zookeeper.connect`. Only `kazoo_session` and `kazoo_handler` import kazoo, and nothing imports them
until a broker is told to use ZooKeeper (ADR 0015).
"""
