"""Upgrades of Slurm: the plan, in Slurm's order and within its window, and the run."""
