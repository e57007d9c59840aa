"""`python -m` of this package: which devices there are, and which libraries for them."""

from ._libraries import main

main()
