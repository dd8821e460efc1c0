"""Judges: how an answer is scored; bounded in time whatever the answer is, and pure but for what runs a command.

Not pure: `command` with `confinement`, and `supervisor` with `leading` and `disk`, which nothing else in here imports.
"""
