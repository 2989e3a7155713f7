"""Updates of the hosts' packages: what there is to do, and how it is done host by host."""
