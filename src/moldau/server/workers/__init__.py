"""Work away from the event loop: threads, and processes with one lane each."""
