"""Install, doctor, verify, backup and erase."""
