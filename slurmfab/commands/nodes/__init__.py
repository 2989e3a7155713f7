"""Compute nodes: discovered, added, removed, replaced, drained, resumed and rebooted."""
