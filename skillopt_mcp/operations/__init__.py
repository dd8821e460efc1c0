"""Operations: what a person or an agent can do, one verb per file; the server and the command line both call these."""
