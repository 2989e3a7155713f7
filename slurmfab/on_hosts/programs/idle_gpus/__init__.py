"""Jobs that hold GPUs and leave them idle: nodes find them, a controller mails their users and may end them."""
