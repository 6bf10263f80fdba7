"""The examples run at a small size and draw something."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_draws_its_picture(path, tmp_path):
    if "import gymnasium" in path.read_text():
        pytest.importorskip("gymnasium", reason="the example needs mercer[rl]")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    target = tmp_path / "picture.png"
    model = module.main(str(target), n_rows=1500)
    assert model.model_order_ > 5
    assert target.stat().st_size > 20_000
    assert len(path.read_text().splitlines()) < 80
