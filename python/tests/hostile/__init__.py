"""Hostile functions, records and hosts, and the jail in which they run."""
