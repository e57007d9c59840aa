"""A checkout: its stack, how it moves from commit to commit, and the log of that.

May import: core.system, core.series.
"""
