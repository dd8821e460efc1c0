"""Judges: how an answer is scored; pure, and bounded in time whatever the answer is. A kind is a class in `kinds/`."""
