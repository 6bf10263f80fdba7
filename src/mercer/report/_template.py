"""The page of a report: one HTML file without scripts, fonts or anything else from outside.

The colours are named once, for light and for dark; figures use them too (``--ink``, ``--paper``
and ``--faint``). Print is always light.
"""

from string import Template

__all__ = ["PAGE"]

_STYLE = """
:root {
  color-scheme: light;
  --ink: #1f2a36; --paper: #fdfefe; --faint: #a9b2bc;
  --quiet: #55616e; --line: #dde2e7; --card: #f4f6f8; --accent: #00639c;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    color-scheme: dark;
    --ink: #e4e8ed; --paper: #14191f; --faint: #6b7783;
    --quiet: #a3aeba; --line: #2c353f; --card: #1c232b; --accent: #6cb8ea;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 3rem; max-width: 66rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 1.25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p, ul { margin: .5rem 0; }
ul { padding-left: 1.2rem; }
.summary { display: flex; flex-wrap: wrap; gap: .75rem; margin: 0; }
.summary div { flex: 1 1 8.5rem; max-width: 100%; padding: .7rem .9rem; }
.summary div { background: var(--card); border-radius: .4rem; }
.summary dt { color: var(--quiet); font-size: .85rem; }
.summary dd { margin: 0; font-size: 1.2rem; font-weight: 600; line-height: 1.3; }
.summary dd { overflow-wrap: normal; }
.notes { padding: .4rem 1rem; border-left: 3px solid var(--accent); background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
caption { text-align: left; color: var(--quiet); padding-bottom: .35rem; }
th, td { padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); }
th, td { vertical-align: top; }
th { text-align: left; font-weight: 600; }
tbody th { font-weight: 400; color: var(--quiet); }
table.pairs { table-layout: fixed; }
table.pairs th { width: 40%; }
table.grid th:not(:first-child), table.grid td { text-align: right; }
table.grid th:last-child, table.grid td:last-child { padding-right: 0; }
table.grid td { overflow-wrap: normal; }
table.grid thead th { overflow-wrap: break-word; }
table.numbers th { overflow-wrap: normal; }
td { font-variant-numeric: tabular-nums; }
.figures { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1.75rem 2rem; }
table + .figures { margin-top: 1.5rem; }
figure { margin: 0; min-width: 0; }
figcaption { margin-bottom: .5rem; font-size: .95rem; font-weight: 600; }
figure svg, figure img { display: block; width: 100%; max-width: 34rem; height: auto; }
figure .plain { background: #fff; color: #000; padding: .5rem; border-radius: .4rem; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
svg text {
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif !important;
}
footer { margin-top: 3rem; color: var(--quiet); font-size: .85rem; }
@media screen and (max-width: 44rem) {
  body { padding: 1.25rem 1rem 2rem; }
  h1 { font-size: 1.4rem; }
  .figures { grid-template-columns: minmax(0, 1fr); }
  table.grid { font-size: .8rem; }
  table.grid th, table.grid td { padding-right: .4rem; }
}
@media print {
  @page { margin: 15mm; }
  :root { --paper: #fff; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h1, h2, h3, caption { break-after: avoid; }
  figure, tr, .summary div, .notes { break-inside: avoid; }
  .summary div, .notes { border: 1px solid var(--line); }
  .figures { gap: 8mm; }
}
"""

# The policy forbids scripts and every connection, whatever a title or a column is called.
PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>"""
    + _STYLE
    + """</style>
</head>
<body>
<header>
<h1>$title</h1>
</header>
<main>
$sections
</main>
<footer>Written by mercer $version.</footer>
</body>
</html>
"""
)
