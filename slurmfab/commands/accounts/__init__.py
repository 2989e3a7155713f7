"""Reads the accounting database and exports it as sections of a cluster file."""
