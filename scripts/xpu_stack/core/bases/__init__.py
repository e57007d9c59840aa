"""Where a base comes from.

May import: core.system, core.series, core.move.
"""
