"""The phases of a deployment: pure functions from the plan input and a host name to the host's resources."""
