"""One file per family of APIs: translate a request into calls on the domain, and back.

Handlers hold no state of their own. Each file opens with the APIs it answers and where its
behaviour deliberately differs from Kafka's.
"""
