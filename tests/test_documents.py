"""The examples in README.md and docs/ run; links to files of the project lead somewhere."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_examples_run(page, capsys):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_benchmark_page_is_what_the_results_say():
    """docs/benchmarks.md is written by benchmarks/run.py and by nothing else."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("run", ROOT / "benchmarks" / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    assert (ROOT / "docs" / "benchmarks.md").read_text() == run.page()


def test_numbers_of_the_risk_page_are_those_of_the_experiment():
    file = ROOT / "benchmarks" / "results" / "reproduction" / "colk-guidance.json"
    found = {
        (row["noise"].partition(":")[0], row["objective"]): row
        for row in json.loads(file.read_text())["rows"]
    }
    table = re.findall(
        r"^\| (\S[^|]*) \|([ \d.e|]+)\|$", (PAGES[0].parent / "docs" / "risk.md").read_text(), re.M
    )
    assert len(table) == 5
    for objective, numbers in table:
        shift, rare = found["shift", objective], found["rare", objective]
        expected = [shift["clean MSE"], shift["mean loss"], shift["worst 10 %"]]
        expected += [rare["clean MSE"], rare["worst 1 %"]]
        assert [n.strip() for n in numbers.split("|")] == [f"{value:.3g}" for value in expected]
