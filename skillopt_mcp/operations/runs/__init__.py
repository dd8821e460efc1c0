"""Runs: training offline or by a host, from what it will take to what it came to."""
