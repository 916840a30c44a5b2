"""`python -m flambeau`: the same as the `flambeau` command."""

import sys

from flambeau.cli import main

if __name__ == "__main__":
    sys.exit(main())
