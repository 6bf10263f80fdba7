"""Pages from templates: HTML in which all is escaped that is not from its own files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


@cache
def templates(package: str) -> Environment:
    """Return the templates of a package, which are in its folder ``templates``.

    Parameters
    ----------
    package : str
        Name of the package.

    Raises
    ------
    ImportError
        If Jinja2 is not installed.

    Examples
    --------
    >>> page = templates("mercer_app.report").from_string("<h1>{{ title }}</h1>")
    >>> page.render(title="Spam & <b>eggs</b>")
    '<h1>Spam &amp; &lt;b&gt;eggs&lt;/b&gt;</h1>'
    """
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            "Pages need Jinja2, which is not installed. Install it with "
            '`pip install "mercer[cli]"`.',
            name="jinja2",
        ) from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        auto_reload=False,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def as_it_is(package: str, name: str) -> Markup:
    """Return a style or a script of the templates of a package, to be put into a page as it is.

    Parameters
    ----------
    package, name : str
        Names of the package and of the file.
    """
    from markupsafe import Markup

    return Markup("\n" + files(package).joinpath("templates", name).read_text(encoding="utf-8"))
