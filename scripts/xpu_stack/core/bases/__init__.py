"""Where a base comes from, and which files of the series are its own.

May import: core.system, core.series, core.move.
"""
