"""`fab rollback`: the hosts and the cluster file as they were before a run."""
