"""What the broker tells about itself: metrics, logging, health."""
