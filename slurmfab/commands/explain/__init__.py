"""`fab explain`: one chain of causes for a job, a node or a user."""
