"""The demonstration of `make demo`: everything Moldau does, on one machine, for two minutes.

A broker; a crowd of users and a small shop that make data; collectors that bring the shop's logs
and the machine's figures into topics; pipelines on Spark that make tables of it all. Every part is
a process of its own and, where there is one, the command that a user would type.

    __main__    what can be said to it, and how it ends
    story       the order of things, from the first record to the last
    cast        who takes part: topics, command lines, options
    parts       processes: started, watched, ended; `ending` is whether they shall
    broker      starts the broker, and asks it how much went through
    shop        the small service
    looking     how does everything stand? As plain values, which are in `figures`
    tables      what is committed, read without Spark; `excerpts` are the rows worth reading
    view        shows that, on a terminal or as lines
    accounts    does it add up? `summary` says so at the end
    tour        what is shown where there is no Java
"""
