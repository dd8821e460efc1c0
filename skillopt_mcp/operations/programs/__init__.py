"""Programs: the functions of the Python API, which do what commands do and return what came of it."""
