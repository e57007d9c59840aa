"""Conflicts, and how they were resolved.

May import: core.system, core.series, core.move.
"""
