"""The ground floor: names, errors, limits and the ports to the outside world. Imports nothing of ours."""
