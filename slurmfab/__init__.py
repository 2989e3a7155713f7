"""slurmfab turns bare machines into a working Slurm cluster over SSH, and keeps it working."""

__version__ = "0.1.0"
