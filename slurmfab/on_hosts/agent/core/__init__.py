"""What all resources use: the connection to the deployer, the host's lock, reading, comparing and replacing files."""
