"""Chaining: every unknown is a real entity."""
