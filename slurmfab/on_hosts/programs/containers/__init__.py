"""What runs on hosts for containers of users: the wrapper sdocker, what precedes jobs, and the pruning of images."""
