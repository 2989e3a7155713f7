"""Plans as people and files have them: their text, saved ones, and what has drifted."""
