"""Stages: the six parts of a training step, each a function of records."""
