"""Stores: the whole store checked, backed up, and moved from one to another."""
