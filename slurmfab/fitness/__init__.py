"""Whether hosts can have what the cluster file gives them: found out from facts, before anything is changed."""
