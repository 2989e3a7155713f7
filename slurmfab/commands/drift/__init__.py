"""The drift alarm: a plan by a timer, which tells by exit code, mail and metrics what differs on hosts."""
