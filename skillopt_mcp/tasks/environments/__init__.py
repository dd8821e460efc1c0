"""Environments: where tasks come from, and, where one does its own rollouts, how they are attempted and scored."""
