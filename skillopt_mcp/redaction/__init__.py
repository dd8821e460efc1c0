"""Redaction: secrets are found in a text and replaced, before anything is stored, shown or sent."""
