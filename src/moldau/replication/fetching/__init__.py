"""How a follower copies the logs of its leaders.

`plan` says which partitions to ask a leader for and from where, `answers` what an answer means for
one of them; both are pure. `fetcher` is the loop: one connection to one leader, one request at a
time. `fetchers` has all loops of a broker: partitions come, go and move to another leader. `ports`
is what they need of the rest of the broker.
"""
