"""Errors, output, running programs, locks, git, atomic writes.

May import: nothing.
"""
