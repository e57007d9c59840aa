"""What a series, its commits and its operations are: check, show, diff, which, history.

May import: core.
"""
