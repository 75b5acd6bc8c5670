"""What pytest need not look into for doctests: scripts that run in processes of their own."""

collect_ignore = ["child.py", "guided.py"]
