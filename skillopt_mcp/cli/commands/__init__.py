"""Commands: one verb per file, each with its `Options` and a `run` that returns an exit code."""
