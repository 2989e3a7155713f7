"""`fab rehearse`: a command carried out on a twin of the cluster, of hosts on this machine."""
