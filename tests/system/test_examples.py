"""The examples run on few rows without a warning, draw something, and have the gallery's form."""

import ast
import io
import re
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

pytestmark = pytest.mark.usefixtures("quick_race", "few_steps", "quick_correction")

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("plot_*.py"))
FEWER = {"N_ROWS": 400, "N_DEALS": 9, "N_EPISODES": 2, "N_FEATURES": 64, "N_SPLITS": 1}
every_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)


class Shrink(ast.NodeTransformer):
    """Lower the constants of the module that say how much there is of something."""

    def visit_Assign(self, node):
        name = getattr(node.targets[0], "id", None)
        if name in FEWER and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(min(node.value.value, FEWER[name]))
        return ast.fix_missing_locations(node)


def test_the_gallery_has_enough_to_look_at():
    assert len(EXAMPLES) >= 12


@every_example
def test_example_draws_its_picture(path, monkeypatch, capsys):
    if "import gymnasium" in path.read_text():
        pytest.importorskip("gymnasium", reason="the example needs mercer[rl]")
    monkeypatch.setattr(plt, "show", lambda: None)
    code = compile(Shrink().visit(ast.parse(path.read_text())), str(path), "exec")
    with plt.rc_context({"figure.dpi": 30}):
        exec(code, {"__name__": "__main__"})
        figures = [plt.figure(number) for number in plt.get_fignums()]
        assert figures
        for figure in figures:
            assert all(axis.has_data() for axis in figure.axes)
            assert any(axis.get_xlabel() for axis in figure.axes)
            figure.savefig(io.BytesIO())  # what cannot be laid out would warn
    plt.close("all")


@every_example
def test_example_has_the_form_of_the_gallery(path):
    text = path.read_text()
    tree = ast.parse(text)
    title, line, empty, *rest = ast.get_docstring(tree).splitlines()
    assert line == "=" * len(title)
    assert not empty
    sentences = re.findall(r"[.?!](?=\s|$)", "\n".join(rest))
    assert 2 <= len(sentences) <= 6
    *before, last = text.split("\n# %%\n")
    assert len(before) >= 2
    assert "plt.subplot" in last  # a figure is taken from the block that makes it
    assert "plt.subplot" not in "".join(before)
    assert text.endswith("plt.show()\n")
    assert len(text.splitlines()) < 80
    assert max(map(len, text.splitlines())) <= 100


@every_example
def test_example_uses_public_names_only(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        else:
            continue
        assert not [name for name in names if name.startswith("_")]
