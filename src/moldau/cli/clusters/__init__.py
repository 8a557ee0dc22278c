"""A cluster of several brokers on one machine: its folder, its processes, its commands."""
