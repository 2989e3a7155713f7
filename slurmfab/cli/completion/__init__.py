"""Completion of command lines in shells: tasks, options, hosts, users, files.

A shell asks on each press of TAB, so this loads neither the tasks nor the models of the cluster file: what the tasks
take is in a table that `make reference` writes.
"""
