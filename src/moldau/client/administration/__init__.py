"""Looking after a cluster: what each administrative call asks, of whom, and what comes back."""
