"""Guard: what a new version of a skill could do, hide or demand that its parent could not, and what it rests on."""
