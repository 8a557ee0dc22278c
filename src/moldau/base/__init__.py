"""The ground floor: names, errors, limits, ports. Imports nothing of ours."""
