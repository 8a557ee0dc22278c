"""Collectors: what machines write down and measure, sent to topics.

    files.py        the collector of log files; what it decides stands in gathering.py and below
    metrics/        the collector of measurements: the host, its processes, its access logs

Speaks to brokers through the client alone, so it works with Apache Kafka as well.
"""
