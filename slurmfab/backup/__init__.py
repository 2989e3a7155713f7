"""Backups of a cluster: what cannot be made anew by a deployment, in one file on the deployer, and the way back."""
