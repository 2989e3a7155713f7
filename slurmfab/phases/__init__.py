"""The parts of a deployment: each module is one part, pure functions from a situation and a host to resources."""
