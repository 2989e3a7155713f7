"""Compute nodes that come and go: what the node tasks do."""
