"""What a cluster is, as values: its file and lock, Slurm by version, what hosts and Slurm said."""
