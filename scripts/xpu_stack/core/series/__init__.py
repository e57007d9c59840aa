"""The files of the series, read and edited, without a checkout.

May import: core.system.
"""
