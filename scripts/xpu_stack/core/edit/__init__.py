"""Edits written back into the series: export, the verbs that reshape it, undo.

May import: core.system, core.series, core.move, core.bases, core.resolve, core.lay.
"""
