"""The series in a checkout: apply, rebase, conflicts, export, undo.

May import: core.system, core.series.
"""
