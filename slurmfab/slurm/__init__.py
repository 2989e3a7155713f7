"""What slurmfab knows of Slurm: keys by version, node lines, and the files that it renders."""
