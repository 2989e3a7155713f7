"""Directories of jobs on a compute node's own disk."""
