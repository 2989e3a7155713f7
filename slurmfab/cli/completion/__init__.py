"""Completion of command lines in shells: tasks, options, hosts, users, files, from a table that is quick to load."""
