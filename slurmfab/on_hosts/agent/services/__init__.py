"""Services and timers of systemd."""
