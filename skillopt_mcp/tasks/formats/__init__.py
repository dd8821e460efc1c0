"""The formats in which people keep their tasks."""
