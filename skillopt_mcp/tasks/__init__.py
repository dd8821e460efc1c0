"""Tasks, their splits, judges, formats and environments."""
