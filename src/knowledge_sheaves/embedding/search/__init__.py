"""Searching for the best candidates without comparing all of them: see `finders` for the interface.

`kept` builds an index into a model's folder and finds by it, `codes` has its two ways of reading:
all codes, which misses nothing, and some lists, which is quicker.
"""
