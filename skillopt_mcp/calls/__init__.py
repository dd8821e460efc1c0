"""Calls: every question to a model, asked once and answered once."""
