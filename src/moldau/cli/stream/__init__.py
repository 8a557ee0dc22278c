"""Records on their way between a pipe and a cluster: forms, places, progress, figures."""
