"""`moldau doctor`: whether a machine is ready for a broker, and what to change if not."""
