"""The metadata of a cluster as a tree of ZooKeeper nodes, in the layout of Kafka 1.x to 3.9.

Everything here is pure: paths, the content of nodes, and the translation between the tree and
Moldau's image and changes. Who connects to ZooKeeper, is elected, watches nodes and sends the
writes is elsewhere.

* `paths` names every node. `node_content` reads and writes JSON, and has `MalformedNode`.
* One module for each kind of node (`broker_nodes`, `topic_nodes`, `state_nodes`, ...) has its
  value, its encoder and its decoder.
* `commit_writes` turns changes that a controller commits into writes.
* `tree_image` makes an image of all nodes, `node_changes` turns one changed node into changes,
  and `tool_requests` has what tools ask for by writing nodes. `tree_image` says what the tree and
  the image do not have in common.
"""
