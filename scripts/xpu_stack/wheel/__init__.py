"""A torch wheel of a checkout: `make wheel` builds it, `make test-wheel` tests it.

May import: core, build, testing.
"""
