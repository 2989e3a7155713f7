"""File systems that the cluster file has hosts mount."""
