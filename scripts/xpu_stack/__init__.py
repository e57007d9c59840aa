"""xpu-stack: lands a series of changes in a source checkout, builds, tests and submits it.

Each package says what it may import; tests/test_docs.py holds it to that.
"""
