"""Transcripts: the files in which hosts keep their sessions, cut into attempts; pure, for it is given the lines."""
