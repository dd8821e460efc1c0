"""Evidence: attempts of real sessions, recorded by an agent, captured by a hook or harvested from transcripts."""
