"""Reading for Fetch requests: sessions, what to read for each, and conversion for old clients."""
