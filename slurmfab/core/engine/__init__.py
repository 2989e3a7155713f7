"""Runs over a cluster's hosts: facts and comparisons are requested, differences converged, outcomes reported."""
