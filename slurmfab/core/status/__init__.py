"""The present state of Slurm: read from its commands, counted, and formatted."""
