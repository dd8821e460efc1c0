"""Judges: how an answer is scored; bounded in time whatever the answer is, and pure but for what runs a command.

Not pure: `command`, `confinement` and `supervisor`, which nothing else in here imports.
"""
