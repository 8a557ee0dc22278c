"""What this broker holds, kept in step with the cluster's metadata."""
