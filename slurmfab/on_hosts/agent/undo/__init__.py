"""The undo store: the state of files and services before each run, so that runs can be undone."""
