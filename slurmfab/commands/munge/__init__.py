"""Rotation of the munge key of a running cluster, with a proof on every host."""
