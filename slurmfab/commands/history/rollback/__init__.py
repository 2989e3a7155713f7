"""`fab rollback`: puts hosts and the cluster file back into their state before a run."""
