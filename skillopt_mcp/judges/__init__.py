"""Judges: how an answer is scored. Pure, and bounded in time whatever the answer is."""
