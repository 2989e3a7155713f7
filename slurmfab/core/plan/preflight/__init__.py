"""Whether hosts can have what the cluster file gives them: judged from facts, before anything is changed."""
