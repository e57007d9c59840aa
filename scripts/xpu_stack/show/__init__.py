"""What the series and its commits are: check, diff, show, which.

May import: core.
"""
