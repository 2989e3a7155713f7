"""Users of the cluster on a host: accounts, home directories, SSH keys, sudo."""
