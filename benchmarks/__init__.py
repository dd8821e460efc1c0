"""Benchmarks: each one command that prints a ratio or a rate, measured, with `--json` for machines."""
