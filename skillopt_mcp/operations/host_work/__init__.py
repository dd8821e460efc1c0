"""Host work: calls handed out to a host's agents, and what they hand in."""
