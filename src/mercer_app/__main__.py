"""``python -m mercer_app``: the command ``mercer``, where its script is not on the path."""

from mercer_app.cli import main

if __name__ == "__main__":
    main()
