"""Parts of a backup: saved on a host, sent to the deployer, and restored."""
