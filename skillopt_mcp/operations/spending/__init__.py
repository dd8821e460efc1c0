"""Spending: what may be spent, how calls go out, by batch too, and what was spent by which run."""
