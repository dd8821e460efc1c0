"""The facts of a thing, gathered once, and rendered as text, page, Markdown and JSON."""
