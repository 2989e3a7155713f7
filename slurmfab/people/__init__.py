"""People: users of the hosts who are no daemons, with the same numbers everywhere."""
