"""How questions are written: SPARQL, the short form, and the nested tuples of BetaE."""
