"""What a change does to Slurm's daemons and to jobs: pure functions of texts, versions and jobs."""
