"""Serving: a SPARQL endpoint and a JSON interface, with workers that can be stopped."""
