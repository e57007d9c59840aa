"""A torch wheel of a checkout: `make wheel`, and `make test-wheel`, which tries it."""
