"""What this broker does for transactions: producer ids, verification of writes, markers."""
