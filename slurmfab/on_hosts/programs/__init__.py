"""Programs that stay on hosts, run by systemd or by Slurm: Python 3.9 with the standard library, as the agent is."""
