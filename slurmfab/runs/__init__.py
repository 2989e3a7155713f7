"""What was done to a cluster: the record of each run, the history of all, and what is left to do."""
