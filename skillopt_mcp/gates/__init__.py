"""Gates: verdicts on evidence. Pure: the same evidence always gives the same verdict."""
