"""ZooKeeper from the command line.

`installation` finds Java and ZooKeeper's jars. `server_properties` reads the server's settings.
`server_process` starts, finds and stops the process. `connection` connects to any ZooKeeper with
kazoo, which is optional. `live_brokers` finds the brokers that are registered there, and
`elected_controller` the one among them that is the controller. The commands themselves are in
`moldau.cli.kafka`; `moldau cluster` uses these modules as well.
"""
