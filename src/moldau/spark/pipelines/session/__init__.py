"""Spark itself: its Java, its virtual machine and the session that pipelines share.

`starting` begins a session, with what `home`, `java` and `machine` know of the place it runs in.
Nothing here knows of pipelines.
"""
