"""``python -m mercer``: the command ``mercer``."""

from mercer.cli import main

if __name__ == "__main__":
    main()
