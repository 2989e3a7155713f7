"""Commands for users on login hosts and controllers: what the cluster has, what they may use, why their jobs wait."""
