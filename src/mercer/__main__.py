"""``python -m mercer``: the command ``mercer``, as it is installed."""

from importlib.metadata import entry_points

if __name__ == "__main__":
    (command,) = entry_points(group="console_scripts", name="mercer")
    command.load()()
