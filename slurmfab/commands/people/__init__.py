"""Users in the cluster file: added and removed, with the same UIDs and GIDs on all hosts."""
