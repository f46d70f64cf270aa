"""`python -m ficha.cli`: the command where it is not on the path."""

from .main import main

main()
