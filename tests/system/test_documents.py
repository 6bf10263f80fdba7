"""The examples in README.md and docs/ run; links to files of the project lead somewhere."""

import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import benchmark_scripts
from command_line import run
from mercer.default import DefaultLearner
from quick import FEW_POINTS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = ("_build", "api", "gallery")  # by `make docs`
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(p for p in DOCS.rglob("*.md") if p.relative_to(DOCS).parts[0] not in GENERATED),
]
PREPARATIONS = ("pip ", "python3 -m venv ", ". .venv/")  # of an environment: not run here


def name_of(page):
    return str(page.relative_to(ROOT))


def script(name):
    """Return a script of docs/_scripts as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needs_river():
    """Skip where River is missing, or older than `mercer.river` works with."""
    pytest.importorskip("mercer.river", exc_type=ImportError)


@pytest.fixture(scope="module")
def few_points(quick_race):
    """What the examples assert holds for smaller models, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefaultLearner, "settings", FEW_POINTS)
        yield


@pytest.mark.usefixtures("few_points", "undrawn", "rough_importances")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_run(page, capsys, tmp_path, monkeypatch):
    """Python and shell commands share one folder, block after block, as a reader would have it."""
    if "mercer.river" in page.read_text():
        needs_river()
    if "import lightgbm" in page.read_text():
        pytest.importorskip("lightgbm", reason="the page compares with it: needs mercer[bench]")
    monkeypatch.chdir(tmp_path)
    names = {}
    blocks = re.findall(r"```(python|sh)\n(.*?)```", page.read_text(), flags=re.DOTALL)
    for language, block in blocks:
        if language == "python":
            exec(compile(block, str(page), "exec"), names)
            continue
        for command in block.strip().splitlines():
            if not command.startswith(PREPARATIONS):
                program, *words = shlex.split(command, comments=True)
                assert program == "mercer", f"{name_of(page)}: {command!r} is not run"
                assert run(*words) == 0, command
    if "matplotlib.pyplot" in sys.modules:  # what was drawn
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_are_shown_have_such_options(page):
    """Those that are not run, for want of data, still name options that exist."""
    import typer

    from mercer_app.cli._app import app

    commands = typer.main.get_command(app).commands
    blocks = "".join(re.findall(r"```\w*\n.*?```", page.read_text(), flags=re.DOTALL))
    shown = re.findall(r"^mercer +(\w+)([^\n#]*)", blocks, flags=re.MULTILINE)
    for name, words in shown:
        options = {o for parameter in commands[name].params for o in parameter.opts}
        assert set(re.findall(r"(?<=\s)--[\w-]+", words)) <= options, f"mercer {name}{words}"


def test_benchmark_page_is_what_the_results_say():
    """docs/benchmarks.md is written by benchmarks/run.py and by nothing else."""
    with benchmark_scripts.scripts("run") as found:
        assert (DOCS / "benchmarks.md").read_text() == found.run.page()


def test_reliability_page_is_what_the_rigs_found():
    """docs/reliability.md is written by reliability/run.py and by nothing else."""
    command = [sys.executable, "-c", "import run; print(run.page(), end='')"]
    done = subprocess.run(command, cwd=ROOT / "reliability", capture_output=True, check=True)
    assert (DOCS / "reliability.md").read_bytes() == done.stdout


def test_numbers_of_the_risk_page_are_those_of_the_experiment():
    lines = (ROOT / "benchmarks" / "results" / "reproduction.jsonl").read_text().splitlines()
    [record] = [line for line in map(json.loads, lines) if line["name"] == "colk-guidance"]
    found = {(row["noise"].partition(":")[0], row["objective"]): row for row in record["rows"]}
    table = re.findall(r"^\| (\S[^|]*) \|([ \d.e|]+)\|$", (DOCS / "risk.md").read_text(), re.M)
    assert len(table) == 5
    for objective, numbers in table:
        shift, rare = found["shift", objective], found["rare", objective]
        expected = [shift["clean MSE"], shift["mean loss"], shift["worst 10 %"]]
        expected += [rare["clean MSE"], rare["worst 1 %"]]
        assert [n.strip() for n in numbers.split("|")] == [f"{value:.3g}" for value in expected]


def section(page, anchor):
    """Text of the section of a page that an anchor leads to; the page without one."""
    text = page.read_text()
    if not anchor:
        return text
    pieces = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        slug = re.sub(r"[^\w\s-]", "", title.lower()).replace(" ", "-")
        if slug == anchor:
            return body
    raise AssertionError(f"{page.name} has no section {anchor}")


def test_numbers_of_the_limits_page_stand_where_their_links_lead():
    links = re.findall(
        r"\[([-+]?\d[\d.]*)\]\(([^)#]+)#?([^)]*)\)", (DOCS / "limits.md").read_text()
    )
    assert len(links) > 15
    for number, page, anchor in links:
        # As a number of its own, not as a part of another one.
        pattern = rf"(?<![\d.]){re.escape(number)}(?![\d]|\.\d)"
        assert re.search(pattern, section(DOCS / page, anchor)), f"{number} in {page}#{anchor}"


def test_reference_has_every_public_module_and_name():
    needs_river()
    reference = script("api_pages")
    pages = [module for group in reference.GROUPS.values() for module in group]
    assert {*pages, *reference.INTERNAL} >= set(reference.public_modules())
    for module in pages:
        text = reference.page(module)
        for name in reference.public_names(module):
            home = reference.home_of(module, name)
            listed = f"\n   {name}\n" if home == module else f":class:`{home}.{name}`"
            assert listed in text, f"{module}.{name} is missing"
        assert f"<{module}>`" in reference.index()


def test_formulas_need_no_network_and_unknown_commands_are_refused():
    pytest.importorskip("latex2mathml", reason="formulas of the pages need mercer[docs]")
    mathml = script("mathml").mathml
    assert "<msup><mi>x</mi><mn>2</mn></msup>" in mathml("x^2", "inline")
    assert mathml(r"a &= b \\ c &= d", "block").count("<mtr>") == 2
    with pytest.raises(ValueError, match=r"does not know .*unheard"):
        mathml(r"\unheard x", "inline")


def test_every_page_of_the_documentation_is_in_its_table_of_contents():
    text = (DOCS / "index.md").read_text()
    entries = set(re.findall(r"^([\w/]+)$", text, flags=re.MULTILINE))
    pages = {str(p.relative_to(DOCS).with_suffix("")) for p in PAGES if DOCS in p.parents}
    assert pages - {"index"} == entries - {"gallery/index", "api/index"}
