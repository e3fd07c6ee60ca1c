"""`python -m covpool`, which is what torchrun starts."""

from covpool.cli import main

if __name__ == "__main__":
    main()
