"""Installing: what is written into the configuration of each host, and the edits that leave all else as it was."""
