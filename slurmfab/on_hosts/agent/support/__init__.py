"""What somebody who is asked for help has to see of a host."""
