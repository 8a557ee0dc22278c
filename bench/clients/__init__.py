"""The client library against other Python clients, on the same broker."""
