"""`python -m knowledge_sheaves` is the command `sheaves`."""

from __future__ import annotations

from knowledge_sheaves.cli import main

if __name__ == "__main__":
    main()
