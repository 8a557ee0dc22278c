"""A broker of a cluster on ZooKeeper: how it lives, asks the controller, and is the controller.

What is kept in ZooKeeper, and who decides, is in `cluster/zookeeper/`. Here is what talks to other
brokers:

* `membership`: the broker's own node, from its registration to its sign-off.
* `drawn_ids`: the id of a broker whose settings have none.
* `shutdown_request`: how it asks the controller to let it stop.
* `gone_brokers`: what follows from the end of another broker's process.
* `tenures`: the broker's turns as the controller, with their duties.
* `command_sender`: the controller's commands to all other brokers.
"""
