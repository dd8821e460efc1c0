"""Settings: what a person wrote in a file, behind --set and in flags, settled into one checked record."""
