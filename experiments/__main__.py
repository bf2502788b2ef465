"""`python -m experiments FIGURE` is `askwell reproduce FIGURE`."""

import sys

from askwell.cli import main

if __name__ == "__main__":
    main(["reproduce", *sys.argv[1:]])
