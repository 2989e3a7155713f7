"""Upgrades of Slurm: what a host has and would get, and the exchange of its packages, daemons and data."""
