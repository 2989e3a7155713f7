"""The health check of a compute node, run there by slurmd."""
