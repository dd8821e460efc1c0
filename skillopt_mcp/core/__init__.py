"""What every room passes around: errors, limits, records, redaction, the next step, tracing."""
