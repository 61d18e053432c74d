"""`python -m mutirao`: the same as the command `mutirao`."""

from mutirao.cli import main

if __name__ == "__main__":
    main()
