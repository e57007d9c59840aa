"""Measures what was built, judges the figures and publishes them.

May import: core, build.
"""
