"""The check of GPUs and of the network between them; a systemd timer starts it on the controller."""
