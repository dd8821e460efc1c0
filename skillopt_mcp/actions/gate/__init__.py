"""Gate: the skills that differ between two git revisions, old against new."""
