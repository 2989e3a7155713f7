"""`fab eject`: the cluster as plain shell scripts that make the same from bare hosts, without slurmfab."""
