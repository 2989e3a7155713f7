"""Backups of a cluster: everything that a deployment cannot make again, in one file on the deployer; and restores."""
