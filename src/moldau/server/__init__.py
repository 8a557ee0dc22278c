"""The broker process: configuration, connections, dispatch, handlers, and where it is wired."""
