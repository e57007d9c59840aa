"""`python -m xpu_stack`: the command line."""

import sys

try:
    from xpu_stack.cli import main

    main()
except KeyboardInterrupt:  # before main() could catch it
    sys.exit(130)
