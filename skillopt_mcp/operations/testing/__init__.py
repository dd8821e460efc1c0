"""Testing: promotion tests and the contests beside them, all that compares versions of a skill."""
