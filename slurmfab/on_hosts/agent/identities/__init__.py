"""Users and groups of a host, their UIDs and GIDs, and the files that they own."""
