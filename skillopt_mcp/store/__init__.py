"""Store: one SQLite file that holds every call, trial, edit, decision and file version."""
