"""The lines of the hosts' logs that matter for a node or a job."""
