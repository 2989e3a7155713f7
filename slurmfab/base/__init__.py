"""The ground: errors, files, texts and names that everything above uses."""
