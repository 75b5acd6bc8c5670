"""`python -m knowledge_sheaves.cli` is the command `sheaves`: what torchrun takes."""

from __future__ import annotations

from knowledge_sheaves.cli import main

if __name__ == "__main__":
    main()
