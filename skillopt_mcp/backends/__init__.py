"""Backends: who answers a call."""
