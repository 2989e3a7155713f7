"""Containers of Slurm's own (`srun --container`): what starts them in jobs, and `sbundle`, which makes bundles."""
