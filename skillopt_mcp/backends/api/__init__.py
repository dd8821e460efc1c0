"""Api: the backends that are reached over HTTP by their vendor's SDK."""
