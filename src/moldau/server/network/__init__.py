"""From a socket to a handler and back: connections, dispatch, and work done in slices."""
