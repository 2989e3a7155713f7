"""The lines of Slurm's, munge's and the kernel's logs in a period."""
