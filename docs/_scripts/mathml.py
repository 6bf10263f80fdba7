"""Formulas as MathML, which browsers set by themselves, without scripts or a network."""

import re

from docutils import nodes
from latex2mathml.converter import convert

#: A block of several lines, as Sphinx writes it in LaTeX, too: lines end in two backslashes.
_LINES = re.compile(r"(?<!\\)\\\\(?!\[)")
#: Brackets of a stated size: browsers find the size themselves.
_OPEN, _CLOSE = re.compile(r"\\[bB]igg?l?(?=[(\[])"), re.compile(r"\\[bB]igg?r?(?=[)\]])")


def mathml(formula, display):
    r"""Return a formula in LaTeX as an element ``<math>``.

    Lines of a block are aligned at their ``&``, as in the environment ``split``. A command that is
    not known is an error, so that no page shows a formula half done.
    """
    if display == "block" and r"\begin" not in formula and _LINES.search(formula):
        formula = rf"\begin{{split}}{formula}\end{{split}}"
    formula = formula.replace("{aligned}", "{split}")  # the name that latex2mathml knows
    formula = _CLOSE.sub(r"\\right", _OPEN.sub(r"\\left", formula))
    text = convert(formula, display=display).replace("<mi>&#x02032;</mi>", "<mo>&#x02032;</mo>")
    text = text.replace("<mo>&#x02016;</mo>", '<mo stretchy="false">&#x02016;</mo>')
    text = text.replace("<mo>&#x0002B;</mo><mo>&#x0003D;</mo>", "<mo>&#x0002B;&#x0003D;</mo>")
    unknown = re.findall(r"<m[iot]\w*>(\\\w+|&)</m", text)
    if unknown:
        raise ValueError(f"latex2mathml does not know {unknown} in the formula {formula!r}.")
    return text


def _inline(self, node):
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(self, node):
    number = ""
    if node["number"]:
        number = f'<span class="eqno">({node["number"]})</span>'
    self.body.append(self.starttag(node, "div", CLASS="math"))
    # Formulas that are wider than the screen scroll by themselves.
    self.body.append(f"{number}{mathml(node.astext(), 'block')}</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer; ``html_math_renderer = "mathml"`` takes it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
