"""``python -m mercer.cli``, where the script ``mercer`` is not on the path."""

from mercer.cli import main

if __name__ == "__main__":
    main()
