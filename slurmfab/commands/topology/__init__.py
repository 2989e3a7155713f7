"""The switches of the network as hosts see them, proposed for the cluster file."""
