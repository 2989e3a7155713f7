"""The munge key of a cluster that is at work: replaced everywhere, and proved."""
