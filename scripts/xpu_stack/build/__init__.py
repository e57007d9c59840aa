"""Builds the checkout: packages, CMake, ninja, the ABI check of the fast mode.

May import: core.
"""
