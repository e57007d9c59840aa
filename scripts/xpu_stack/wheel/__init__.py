"""Wheels: a torch of a checkout, and the extension of an installed one; made and tested.

May import: core, build, testing.
"""
