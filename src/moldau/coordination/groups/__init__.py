"""The group coordinator: consumer groups of the classic protocol, and committed offsets."""
