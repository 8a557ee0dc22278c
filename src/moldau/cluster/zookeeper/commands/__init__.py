"""The commands of a controller to the brokers, in a cluster on ZooKeeper (ADR 0016).

Everything here is pure: from images to requests, and from requests to changes. Who sends, repeats
and answers the requests is elsewhere.

* `touched` collects what changed since the last update of a broker, and finds the difference there.
* `outgoing` makes UpdateMetadata, LeaderAndIsr and StopReplica of two images. `pieces` says how
  large one request may be.
* `incoming` makes an update of the requests of a controller, and the next image of it.
  `statements` reads and checks the parts of a request.
* `fencing` tells which commands are too old to be carried out.
"""
