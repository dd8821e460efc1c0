"""Optimizer: the training loop over the six stages, and the promotion test."""
