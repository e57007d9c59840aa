"""The series laid on a base: its commits, apply, rebase.

May import: core.system, core.series, core.move, core.bases, core.resolve.
"""
