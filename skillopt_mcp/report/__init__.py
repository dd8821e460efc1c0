"""Report: what happened to a skill, as one page to look at: read from the store, nothing is asked or changed."""
