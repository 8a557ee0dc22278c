"""A cluster whose metadata is kept in ZooKeeper, in the layout of Kafka 1.x to 3.9.

* `client/` is the way to an ensemble: a port of our own, with kazoo behind it.
* `commands/` is what a controller tells the brokers: requests made of images, and images made of
  requests. Pure.
* `nodes/` is the tree: paths, the content of nodes, and the translation between the tree and the
  image. Pure.
"""
