"""Documents: a skill's files as bytes, their parts, and the edit engine. Pure: no clock, no randomness, no I/O."""
