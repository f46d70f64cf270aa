"""`python -m ficha.cli`: for where the `ficha` command is not on the path."""

from . import main

main()
