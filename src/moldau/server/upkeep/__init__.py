"""What a broker does from time to time: retention, checkpoints, cleaning, scrubbing."""
