"""What a change of Slurm's files needs, and whom it would hurt; pure functions of texts, versions and jobs."""
