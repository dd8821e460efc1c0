"""Judges: how an answer is scored; bounded in time whatever the answer is, and pure but for `programs`.

A kind is a class in `kinds/`. `supervisor` runs as a process of its own, and imports the standard library alone.
"""
