"""What a host is, read before anything is planned."""
