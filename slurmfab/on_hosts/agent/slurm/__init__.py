"""Slurm's configuration files and state on the host."""
