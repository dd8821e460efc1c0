"""Candidates: how they are made by hand or by a host, made again, and what they were made from."""
