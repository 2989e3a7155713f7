"""Slurm: its keys by version, node lines, limits, and the files that slurmfab renders."""
