"""Tests what was built: C++ and Python tests, bisect, clang-tidy.

May import: core, build, show.
"""
