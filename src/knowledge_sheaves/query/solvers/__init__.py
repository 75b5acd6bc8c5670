"""Ways to answer: every solver is a file, or a folder, and a line of the registry."""
