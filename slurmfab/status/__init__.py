"""Slurm at one moment: read from its commands, counted, shown."""
