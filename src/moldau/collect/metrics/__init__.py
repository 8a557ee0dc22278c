"""The collector of measurements: the host, its processes, and requests found in access logs."""
