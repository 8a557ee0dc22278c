"""A whole cluster in one process, on virtual time, decided by one seed.

Every port of `base` has a simulated twin here: clock and randomness (`world`), the event loop
(`loop`), network, disk and executor. Nothing here touches the operating system, and nothing asks
for the order of a set or the address of an object, so that the same seed gives the same run on
every machine; `trace` proves it. Production code imports none of this.
"""
