"""Sphinx configuration. ``make docs`` builds the pages; nothing is loaded from the network."""

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_scripts"))

import matplotlib  # noqa: E402

matplotlib.use("Agg")

import api_pages  # noqa: E402
import compiled_once  # noqa: E402
import thumbnails  # noqa: E402

import mercer  # noqa: E402

project = "mercer"
author = "The mercer developers"
copyright = author
version = release = mercer.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",  # in _scripts
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_scripts", "_templates", "**/sg_execution_times.rst"]
exclude_patterns += ["sg_execution_times.rst", "gallery/**/*.ipynb", "gallery/**/*.py"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# -- pages in Markdown ---------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3  # README and the pages link to headings

# -- reference -----------------------------------------------------------------------------------

api_pages.write(HERE / "api")
compiled_once.install()
autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"  # the docstrings say types, shapes and units
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists them once
numpydoc_xref_param_type = False
add_module_names = False

nitpicky = True  # a reference to a class or function that is not there is a warning
nitpick_ignore_regex = [
    ("py:attr", r".*"),  # attributes are listed in their class, without pages of their own
    ("py:.*", r"(sklearn|numpy|scipy)\..*"),
    # Bases and helpers in private modules, which docstrings of the same package speak of.
    ("py:class", r"BilinearState|InducingFeatures"),
    ("py:meth", r"own|Objective\.batch_rate"),
    ("py:func", "transition_targets"),
]

# Outside of `code` and `math`, name_ would be a link to a target "name".
_QUOTED = re.compile(r"(``.*?``|`[^`]*`)", re.DOTALL)
_FITTED = re.compile(r"(?<=[A-Za-z0-9])_(?=[\s),;]|$)")


def _escape_fitted(app, what, name, value, options, lines):
    """Escape the underscore at the end of fitted attributes, up to the examples."""
    text, rule, examples = "\n".join(lines).partition("\nExamples\n---")
    pieces = _QUOTED.split(text)
    pieces[::2] = [_FITTED.sub(r"\\_", piece) for piece in pieces[::2]]
    # The first word of an entry is a name, of which numpydoc takes care itself.
    text = re.sub(r"^(\s*\w+)\\_(?= : )", r"\1_", "".join(pieces), flags=re.MULTILINE)
    lines[:] = (text + rule + examples).split("\n")


def _skip(app, what, name, member, skip, options):
    """Leave out what scikit-learn and River add: their docstrings are for their own pages."""
    if name.startswith("set_") and name.endswith("_request"):
        return True
    module = getattr(member, "__module__", None) or ""
    return True if module.startswith(("sklearn.", "river.")) else skip


def _own_branch(app, pagename, templatename, context, doctree):
    """Open in the sidebar what leads to the page only: all pages on every page is quadratic."""
    whole = context["toctree"]
    context["toctree"] = lambda **options: whole(**{**options, "collapse": True})


# -- gallery -------------------------------------------------------------------------------------

#: Folders of examples/, in the order of the page.
SECTIONS = ["tables", "streams", "uncertainty", "losses_and_ranking", "small_models", "policies"]
# Pages of examples that are gone would be pages that nothing leads to.
for page in (HERE / "gallery").rglob("plot_*.*"):
    folder = HERE.parent / "examples" / page.parent.relative_to(HERE / "gallery")
    if not (folder / f"{page.name.partition('.')[0]}.py").exists():
        page.unlink()

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "plot_gallery": os.environ.get("MERCER_GALLERY", "1") == "1",  # 0: without running them
    "subsection_order": [f"../examples/{section}" for section in SECTIONS],
    "image_scrapers": (thumbnails.scrape,),
    "thumbnail_size": thumbnails.SIZE,
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": None,
    "reset_modules": (),  # neither seaborn nor pyplot needs it; warnings stay errors elsewhere
    "abort_on_example_error": True,
    "parallel": True,  # as many processes as Sphinx has
}
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings cannot be pickled

# -- look ----------------------------------------------------------------------------------------

html_theme = "furo"
html_title = "mercer"
html_static_path = ["_static"]
html_css_files = ["mercer.css"]
html_js_files = ["mercer.js"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5a8a", "color-brand-content": "#0b5a8a"},
    "dark_css_variables": {"color-brand-primary": "#7fc4ef", "color-brand-content": "#7fc4ef"},
}
html_math_renderer = "mathml"


def setup(app):
    """Register what is done to members and their docstrings."""
    app.connect("builder-inited", thumbnails.use, priority=900)  # after the examples have run
    app.connect("html-page-context", _own_branch, priority=400)  # before furo takes it
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _escape_fitted, priority=400)  # before numpydoc
