"""Looks: what is told of skills, candidates, tests and runs; none of it changes anything."""
