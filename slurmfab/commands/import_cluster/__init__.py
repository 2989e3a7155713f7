"""`fab import`: a cluster that somebody made by hand becomes a cluster file, a lock and the files beside it."""
