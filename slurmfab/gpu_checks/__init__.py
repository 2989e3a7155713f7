"""Checks of GPUs, as the deployer sees them: whether the cluster file fits the hosts, and one that is asked for now."""
