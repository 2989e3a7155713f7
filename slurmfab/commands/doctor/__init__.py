"""`fab doctor`: the deployer's own side, from its Python to the way to each host; nothing is changed anywhere."""
