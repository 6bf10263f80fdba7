"""CSV as people have it: delimiters, decimal marks, encodings, quotes, comments, gaps, slips."""

import csv
import gzip
import io
import pickle
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from mercer.exceptions import ParameterError
from mercer_app.files import (
    CsvDialect,
    CsvPath,
    count_rows,
    csv_files,
    read_tables,
    schema,
    sniff_csv,
    stream,
)
from mercer_app.files.arrivals import Lines
from mercer_app.files.dialect import sniff
from mercer_app.files.tables import file_parts, place_of, unusual_files
from mercer_app.training import FileTraining, fingerprint

TOWNS = {"town": ["Köln", "Bonn"], "height": [53.5, 60.25]}

# What is written, what must become of it, and what is said of it; text is UTF-8 unless encoded.
FILES = {
    "plain": ("town,height\nKöln,53.5\nBonn,60.25\n", TOWNS, ""),
    "mark of UTF-8": ("\ufefftown,height\nKöln,53.5\nBonn,60.25\n", TOWNS, ""),
    "two marks of UTF-8": ("\ufeff\ufefftown,height\nKöln,53.5\nBonn,60.25\n", TOWNS, ""),
    "semicolons": (
        "town;height\nKöln;53,5\nBonn;60,25\n",
        TOWNS,
        "columns separated by ';', decimal comma",
    ),
    "semicolons with points": (
        "town;height\nKöln;53.5\nBonn;60.25\n",
        TOWNS,
        "columns separated by ';'",
    ),
    "tabs": ("town\theight\nKöln\t53.5\nBonn\t60.25\n", TOWNS, "columns separated by tabs"),
    "bars": ("town|height\nKöln|53.5\nBonn|60.25\n", TOWNS, "columns separated by '|'"),
    "decimal commas in quotes": (
        'town,height\nKöln,"53,5"\nBonn,"60,25"\n',
        TOWNS,
        "decimal comma",
    ),
    "Excel": (
        "sep=;\r\ntown;height\r\nKöln;53,5\r\nBonn;60,25\r\n",
        TOWNS,
        "columns separated by ';', decimal comma",
    ),
    "Latin-1": (
        "town;height\nKöln;53,5\nBonn;60,25\n".encode("latin-1"),
        TOWNS,
        "columns separated by ';', decimal comma, Latin-1 (Windows-1252)",
    ),
    "Windows-1252": (
        "sum,what\n5,€\n7,“x”\n".encode("cp1252"),
        {"sum": [5, 7], "what": ["€", "“x”"]},
        "Latin-1 (Windows-1252)",
    ),
    "UTF-16": ("town,height\nKöln,53.5\nBonn,60.25\n".encode("utf-16"), TOWNS, "UTF-16"),
    "UTF-16, the other way round": (
        b"\xfe\xff" + "town,height\nKöln,53.5\nBonn,60.25\n".encode("utf-16-be"),
        TOWNS,
        "UTF-16",
    ),
    "UTF-16 without a mark": (
        "town,height\nKöln,53.5\nBonn,60.25\n".encode("utf-16-le"),
        TOWNS,
        "UTF-16-LE",
    ),
    "old Macs": ("town,height\rKöln,53.5\rBonn,60.25\r", TOWNS, ""),
    "no end of the last line": ("town,height\nKöln,53.5\nBonn,60.25", TOWNS, ""),
    "single quotes": (
        "town,height\n'Köln, am Rhein',53.5\n'Bonn',60.25\n",
        {"town": ["Köln, am Rhein", "Bonn"], "height": [53.5, 60.25]},
        "quotes '",
    ),
    "single quotes around all": (
        "'town','height'\n'Köln','53.5'\n'Bonn','60.25'\n",
        TOWNS,
        "quotes '",
    ),
    "apostrophes": (
        "town,note\nKöln,'s schön\nBonn,rock 'n' roll\nUlm,'quoted'\n",
        {"town": ["Köln", "Bonn", "Ulm"], "note": ["'s schön", "rock 'n' roll", "'quoted'"]},
        "",
    ),
    "text with delimiters": (
        'a,b\n"one, two; three",1\n"four; five",2\n',
        {"a": ["one, two; three", "four; five"], "b": [1, 2]},
        "",
    ),
    "names with commas": (
        "time;size, cm;mass, kg\nx;1,5;2,5\ny;3,5;4,5\n",
        {"time": ["x", "y"], "size, cm": [1.5, 3.5], "mass, kg": [2.5, 4.5]},
        "columns separated by ';', decimal comma",
    ),
    "several lines in a cell": (
        'a,b\n"one\n# two",1\n"three",2\n',
        {"a": ["one\n# two", "three"], "b": [1, 2]},
        "",
    ),
    "one column": ("x\n1.5\n2.5\n", {"x": [1.5, 2.5]}, ""),
    "one column of text": (
        "note\nHello, world\nfoo\na, b, c\n",
        {"note": ["Hello, world", "foo", "a, b, c"]},
        "columns separated by ';'",
    ),
    "one column of decimal commas": (
        "x\n1,5\n2,25\n",
        {"x": [1.5, 2.25]},
        "columns separated by ';', decimal comma",
    ),
    "one row": (
        "a;b\n1,5;x\n",
        {"a": [1.5], "b": ["x"]},
        "columns separated by ';', decimal comma",
    ),
    "comments at the top": (
        "# from me, to you\n# 2024\na;b\n1;2\n3;4\n",
        {"a": [1, 3], "b": [2, 4]},
        "columns separated by ';', lines with # left out",
    ),
    "comments amid the rows": (
        "a,b\n1,2\n# it's \"broken, he said\n3,4\n#5,6\n7,8\n",
        {"a": [1, 3, 7], "b": [2, 4, 8]},
        "lines with # left out",
    ),
    "names in a comment": ("# a, b\n1,2\n3,4\n", {"a": [1, 3], "b": [2, 4]}, ""),
    "a number sign as a name": (
        "#,name,kind\n1,Bulba,grass\n2,Char,fire\n",
        {"#": [1, 2], "name": ["Bulba", "Char"], "kind": ["grass", "fire"]},
        "",
    ),
    "number signs in cells": (
        "tag,n\n#fun,1\n#sad,2\nnone,3\n",
        {"tag": ["#fun", "#sad", "none"], "n": [1, 2, 3]},
        "",
    ),
    "lines without anything": (
        "\n\na,b\n\n1,2\n   \n3,4\n\n",
        {"a": [1, 3], "b": [2, 4]},
        "",
    ),
    "blanks around names": ("a, b\n1, 2\n3, 4\n", {"a": [1, 3], "b": [2, 4]}, ""),
    "names that are missing": (
        ",b,\n1,2,\n3,4,x\n",
        {"column_1": [1, 3], "b": [2, 4], "column_3": [None, "x"]},
        "",
    ),
    "names that count": ("0,1,2\n5,6,7\n8,9,1\n", {"0": [5, 8], "1": [6, 9], "2": [7, 1]}, ""),
    "names of rows without a name": (
        '"x","y"\n"1",2.5,a\n"2",3.5,b\n',
        {"column_1": [1, 2], "x": [2.5, 3.5], "y": ["a", "b"]},
        "",
    ),
    "delimiters at the ends of rows": (
        "x;y\n1;a;\n2;b;\n",
        {"x": [1, 2], "y": ["a", "b"], "column_3": [None, None]},
        "columns separated by ';'",
    ),
    "years": (
        "land,2019,2020\nCH,1,2\nDE,3,4\n",
        {"land": ["CH", "DE"], "2019": [1, 3], "2020": [2, 4]},
        "",
    ),
    "thousands with points": (
        "a;b\n1.234,56;2\n950,5;3\n",
        {"a": ["1.234,56", "950,5"], "b": [2, 3]},
        "columns separated by ';', decimal comma",
    ),
    "thousands with points and no decimals": (
        "a;b\n1.234;2\n950;3\n",
        {"a": ["1.234", "950"], "b": [2, 3]},
        "columns separated by ';', decimal comma",
    ),
    "thousands with commas": (
        'a,b\n"1,234",2\n"12,950",3\n',
        {"a": ["1,234", "12,950"], "b": [2, 3]},
        "",
    ),
    "thousands with commas and decimals": (
        "a;b\n1,234.5;0.125\n12,950.25;3.5\n",
        {"a": ["1,234.5", "12,950.25"], "b": [0.125, 3.5]},
        "columns separated by ';'",
    ),
    "three decimals": (
        "a;b\n1,234;x\n12,950;y\n0,500;z\n",
        {"a": [1.234, 12.95, 0.5], "b": ["x", "y", "z"]},
        "columns separated by ';', decimal comma",
    ),
    "gaps": (
        "a,b,c\n1,x,2.5\n,,\nNA,NA,N/A\nnull,NULL,nan\n#N/A,n/a,NaN\n",
        {"a": [1, *[None] * 4], "b": ["x", *[None] * 4], "c": [2.5, *[None] * 4]},
        "",
    ),
    "gaps among numbers only": (
        "a,b\n1,None\n-,-\n?,?\n--,x\n.,.\nmissing,missing\nNone,NA\n#DIV/0!,*\n",
        {
            "a": [1, *[None] * 7],
            "b": ["None", "-", "?", "x", ".", "missing", None, "*"],
        },
        "",
    ),
    "backslashes before quotes": (
        'n,say\n1,"say \\"no, {k}\\", ok"\n2,"\\"a\\", b"\n',
        {"n": [1, 2], "say": ['say "no, {k}", ok', '"a", b']},
        "\\ escapes what follows",
    ),
    "backslashes before quotes, no delimiter": (
        'n;say\n1;"say \\"no\\" ok"\n2;plain\n',
        {"n": [1, 2], "say": ['say "no" ok', "plain"]},
        "columns separated by ';', \\ escapes what follows",
    ),
    "backslashes before delimiters": (
        "n,say\n1,a\\, b\n2,c\\\\d\n3,\\N\n",
        {"n": [1, 2, 3], "say": ["a, b", "c\\d", None]},
        "\\ escapes what follows",
    ),
    "backslashes amid lines": (
        'n,say\n1,"\\"a\\",\nb"\n2,c\n',
        {"n": [1, 2], "say": ['"a",\nb', "c"]},
        "\\ escapes what follows",
    ),
    "folders": (
        'n,path\n1,"C:\\a, b\\"\n2,"D:\\"\n',
        {"n": [1, 2], "path": ["C:\\a, b\\", "D:\\"]},
        "",
    ),
    "blanks before quotes": (
        'n, say\n1, "a, 1"\n2, "b, 2"\n',
        {"n": [1, 2], "say": ["a, 1", "b, 2"]},
        "",
    ),
    "blanks before some quotes": (
        'n,say,m\n1, "a, 1",5\n2,b,6\n3,  "c",7\n',
        {"n": [1, 2, 3], "say": ["a, 1", "b", "c"], "m": [5, 6, 7]},
        "",
    ),
    "blanks and backslashes before quotes": (
        'n; say\n1; "a; \\"1\\""\n2; "b"\n',
        {"n": [1, 2], "say": ['a; "1"', "b"]},
        "columns separated by ';', \\ escapes what follows",
    ),
    "runs of blanks": (
        "town    height   n\nKöln      53.5  12\nBonn     60.25   7\n",
        {**TOWNS, "n": [12, 7]},
        "columns separated by runs of blanks",
    ),
    "leading blanks": (
        "   x    y\n  1.5  2\n -2.5 11\n",
        {"x": [1.5, -2.5], "y": [2, 11]},
        "columns separated by runs of blanks",
    ),
    "blanks, decimal commas": (
        "x  y\n1,5  2\n-2,5 11\n",
        {"x": [1.5, -2.5], "y": [2, 11]},
        "columns separated by runs of blanks, decimal comma",
    ),
    "blanks and tabs": (
        "x\tn\ttown\n  1.5   12\tKöln\n -2.5    7\tBonn\n",
        {"x": [1.5, -2.5], "n": [12, 7], "town": ["Köln", "Bonn"]},
        "columns separated by runs of blanks",
    ),
    "blanks, then quotes after a tab": (
        'mpg  hp   name\n18.0  130.0\t"chevrolet ""c"" malibu"\n15.0  ?\t"buick skylark"\n',
        {"mpg": [18, 15], "hp": [130, None], "name": ['chevrolet "c" malibu', "buick skylark"]},
        "columns separated by runs of blanks",
    ),
    "blanks and comments": (
        "# measured\n# x  y\n  1.5  2\n -2.5 11\n",
        {"x": [1.5, -2.5], "y": [2, 11]},
        "columns separated by runs of blanks, lines with # left out",
    ),
    "as R writes it": (
        '"x" "y"\n"1" 2.5 "a b"\n"2" 3.5 "c"\n',
        {"column_1": [1, 2], "x": [2.5, 3.5], "y": ["a b", "c"]},
        "columns separated by runs of blanks",
    ),
    "fixed widths": (
        "city         area  pop\nNew York    783.8 8336\nLos Angeles       3822\n"
        "Bonn        141.1  331\nSan Jose    466.1  971\nRio         1200  6211\n",
        {
            "city": ["New York", "Los Angeles", "Bonn", "San Jose", "Rio"],
            "area": [783.8, None, 141.1, 466.1, 1200],
            "pop": [8336, 3822, 331, 971, 6211],
        },
        "columns of fixed widths, at 11,6,5",
    ),
    "fixed widths under longer names": (
        "a_long_name b c\n 1 New Bern  5\n 2           7\n33 Florence 11\n"
        " 4 Rio       1\n 5 San Jose  2\n",
        {
            "a_long_name": [1, 2, 33, 4, 5],
            "b": ["New Bern", None, "Florence", "Rio", "San Jose"],
            "c": [5, 7, 11, 1, 2],
        },
        "columns of fixed widths, at 3,8,4",
    ),
    "prose": (
        "note\nHello world out there\nfoo 12 bar baz\na b c d\n12 monkeys were here\nx y z u\n",
        {
            "note": [
                "Hello world out there",
                "foo 12 bar baz",
                "a b c d",
                "12 monkeys were here",
                "x y z u",
            ]
        },
        "",
    ),
    "gaps of other programs": (
        "a,b\n1.5,x\n:,\\N\n#REF!,x\n(D),(D)\nk.A.,x\nn.d.,x\n1.#QNAN,x\n-nan,x\n",
        {"a": [1.5, *[None] * 7], "b": ["x", None, "x", "(D)", *["x"] * 4]},
        "",
    ),
    "codes": (
        "zip,n\n02139,1\n94007,2\n",
        {"zip": ["02139", "94007"], "n": [1, 2]},
        "",
    ),
    "codes of several widths": (
        "n;code\n10;7\n20;007\n30;\n",
        {"n": [10, 20, 30], "code": ["7", "007", None]},
        "columns separated by ';'",
    ),
    "codes between blanks": (
        "n   code\n1  0012\n22  512\n",
        {"n": [1, 22], "code": ["0012", "512"]},
        "columns separated by runs of blanks",
    ),
    "zeros": ("a,b,c\n0,0.5,-0\n10,00.5,20\n", {"a": [0, 10], "b": [0.5, 0.5], "c": [0, 20]}, ""),
    "nothing but a word": ("a,b\n1,None\n2,None\n", {"a": [1, 2], "b": ["None", "None"]}, ""),
}


def write(folder, content, name="towns.csv"):
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def read(path, **options):
    return pa.concat_tables(list(read_tables(path, **options))).to_pydict()


@pytest.mark.parametrize("name", FILES)
def test_what_people_have_is_read_as_they_mean_it(tmp_path, name):
    content, expected, said = FILES[name]
    file = write(tmp_path, content)
    assert read(file) == expected
    assert sniff_csv(file).describe() == said
    assert schema(file).names == list(expected)
    assert count_rows(file) is None
    assert read(file, rows_per_table=1) == expected


@pytest.mark.parametrize("name", ["semicolons", "UTF-16", "Latin-1", "comments amid the rows"])
def test_compressed_files_are_read_alike(tmp_path, name):
    content, expected, _ = FILES[name]
    content = content if isinstance(content, bytes) else content.encode()
    assert read(write(tmp_path, gzip.compress(content), "a.csv.gz")) == expected


def test_a_file_named_for_tabs_may_have_something_else(tmp_path):
    file = write(tmp_path, "a;b\n1;2\n", "a.tsv")
    assert read(file) == {"a": [1], "b": [2]}
    assert unusual_files(file) == [(file, "columns separated by ';'")]
    tabs = write(tmp_path, "a\tb\n1\t2\n", "b.tsv")
    assert read(tabs) == {"a": [1], "b": [2]}
    assert unusual_files(tabs) == []


def test_each_file_of_a_folder_is_found_out_on_its_own(tmp_path):
    write(tmp_path, FILES["Latin-1"][0], "a.csv")
    write(tmp_path, FILES["plain"][0], "b.csv")
    write(tmp_path, FILES["tabs"][0], "c.csv")
    assert read(tmp_path) == {"town": TOWNS["town"] * 3, "height": TOWNS["height"] * 3}
    assert [file.name for file, _ in unusual_files(tmp_path)] == ["a.csv", "c.csv"]


# What is told, of files that would be taken for something else.
TOLD = [
    ("a,b;c\n1,2;3\n", CsvDialect("semicolon", "comma"), {"a,b": [1.2], "c": [3]}),
    ("a;b\n1,234;x\n", CsvDialect(decimal="."), {"a": ["1,234"], "b": ["x"]}),
    ("a b\n1 2\n", CsvDialect(delimiter="space"), {"a": [1], "b": [2]}),
    ("a,b\nł,1\n".encode("cp1250"), CsvDialect(encoding="cp1250"), {"a": ["ł"], "b": [1]}),
    ("日,b\n本,1\n".encode("sjis"), CsvDialect(encoding="sjis"), {"日": ["本"], "b": [1]}),
    ("a b\n1   2\n", CsvDialect(delimiter="whitespace"), {"a": [1], "b": [2]}),
    ("1   2\n", CsvDialect("whitespace", header=False), {"column_1": [1], "column_2": [2]}),
    (
        "ab  c\n1234\n5 67\n",
        CsvDialect(widths="2,2,1"),
        {"ab": [12, 5], "column_2": [34, 67], "c": [None, None]},
    ),
    (
        "12 x4\n5  y7\n",
        CsvDialect(widths="1-2,5-5", header=False),
        {"column_1": [12, 5], "column_2": [4, 7]},
    ),
    ('a,b\n"x^",y",1\n', CsvDialect(escape="^"), {"a": ['x",y'], "b": [1]}),
    ("a,b\nC:\\,1\nD,2\n", CsvDialect(escape=""), {"a": ["C:\\", "D"], "b": [1, 2]}),
    ('a,b\n1, "x"\n', CsvDialect(blanks=False), {"a": [1], "b": [' "x"']}),
    ('a,b\n"x,1\n', CsvDialect(quote=""), {"a": ['"x'], "b": [1]}),
    ("a,b\n~x,y~,1\n", CsvDialect(quote="~"), {"a": ["x,y"], "b": [1]}),
    ("% c\na,b\n% d\n1,2\n", CsvDialect(comment="%"), {"a": [1], "b": [2]}),
    ("a,b\n#1,2\n3,4\n", CsvDialect(comment=""), {"a": ["#1", "3"], "b": [2, 4]}),
    ("1.5,x\n2.5,x\n", CsvDialect(header=False), {"column_1": [1.5, 2.5], "column_2": ["x", "x"]}),
    ("# c\n\n1,2\n", CsvDialect(header=False), {"column_1": [1], "column_2": [2]}),
    ("1.5,2.5\n3,4\n", CsvDialect(header=True), {"1.5": [3], "2.5": [4]}),
]


@pytest.mark.parametrize(("content", "dialect", "expected"), TOLD)
def test_what_is_told_counts(tmp_path, content, dialect, expected):
    file = write(tmp_path, content)
    assert read(file, dialect=dialect) == expected
    assert schema(file, dialect=dialect).names == list(expected)
    path = pickle.loads(pickle.dumps(CsvPath(file, dialect)))
    assert isinstance(path, str)
    assert path == str(file)
    assert read(path) == expected
    (part,) = file_parts(path)
    layout = schema(path)
    (table,) = pickle.loads(pickle.dumps(part)).tables(layout)
    assert table.to_pydict() == expected


def test_what_is_told_last_counts(tmp_path):
    path = CsvPath(write(tmp_path, "a;b\n1,5;2\n"), CsvDialect(decimal=".", encoding="latin-1"))
    assert read(path) == {"a": ["1,5"], "b": [2]}
    assert read(path, dialect=CsvDialect(decimal=",")) == {"a": [1.5], "b": [2]}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"delimiter": ";;"}, "`delimiter` must be a single character"),
        ({"delimiter": "a"}, "`delimiter` must be a single character"),
        ({"delimiter": "\n"}, "`delimiter` must be a single character"),
        ({"delimiter": ""}, "`delimiter` must be a single character"),
        ({"decimal": ";"}, "`decimal` must be '.' or ','"),
        ({"encoding": "utf-9"}, "`encoding` 'utf-9' is not known"),
        ({"encoding": "base64"}, "`encoding` 'base64' is not known"),
        ({"widths": "5,x"}, "`widths` must say how many characters"),
        ({"widths": "5-2"}, "`widths` must say how many characters"),
        ({"escape": "ab"}, "`escape` must be a single character"),
        ({"blanks": "no"}, "`blanks` must be True, False or None"),
        ({"quote": "''"}, "`quote` must be a single character"),
        ({"header": "no"}, "`header` must be True, False or None"),
        ({"delimiter": "|", "quote": "|"}, "They must differ"),
    ],
)
def test_wrong_settings_are_refused(setting, said):
    with pytest.raises(ParameterError, match=said.replace(".", r"\.")):
        CsvDialect(**setting)


# -- files that cannot be read name the line ------------------------------------------------------

MANY = "1,x\n" * 300

BROKEN = {
    "too many cells": ("a,b\n1,2\n\n3,4,5\n", r"line 4 has 3 cells, but there are 2 columns"),
    "too few cells": ("a;b;c\n1;2;3\n4;5\n", r"line 3 has 2 cells.*3 columns, separated by ';'"),
    "after a cell of lines": ('a,b\n"x\ny",2\n3\n', r"line 4 has 1 cell, but there are 2"),
    "after comments": ("# c\na,b\n# d, e, f\n1\n", r"line 4 has 1 cell, but there are 2"),
    "that begins like others": ("tag,n\n#fun,1\nx,2\n#sad,3,4\n", r"line 4 has 3 cells"),
    "far below": (f"a,b\n{MANY}1,2,3\n", r"line 302 has 3 cells"),
    "in Latin-1": (f"ä,b\n{MANY}1,2,3\n".encode("latin-1"), r"line 302 has 3 cells"),
    "no closing quote": ('a,b\n1,x\n2,"y\n3,z\n', r'in line 3 a cell begins with " and'),
    "no closing quote far below": (f'a,b\n{MANY}2,"y\n3,z\n', r"in line 302 a cell begins with"),
    "no closing quote, many lines": (f'a,b\n2,"y\n{MANY}', r"in line 2 a cell begins with"),
    "no closing quote in Latin-1": (
        f'ä,b\n{MANY}2,"y\n3,z\n'.encode("latin-1"),
        r"in line 302 a cell begins with",
    ),
    "no closing quote among escapes": (
        f'a,b\n1,"x \\"y, z\\""\n{MANY}2,"y\n3,z\n',
        r"in line 303 a cell begins with",
    ),
    "too many words": (
        f"a  b\n{MANY.replace(',', '  ')}1 2 3\n".replace("x", "7"),
        r"line 302 has 3 cells.*separated by runs of blanks",
    ),
    "no UTF-8 far below": (
        f"a,b\n{MANY}1,ä\n".encode("latin-1"),
        r"line 302 holds bytes that are no UTF-8\..*encoding='latin-1'",
    ),
    "no UTF-8 between commas": (
        f"# c\na,b\n{MANY}1,ä\n".encode("latin-1"),
        r"line 303 holds bytes that are no UTF-8\.",
    ),
    "half a letter": ("a,b\n1,ä\n".encode("utf-16")[:-3] + b"\x00\xd8", r"line 2 holds bytes"),
    "a value of another type": (
        f"a,b\n{MANY}y,x\n",
        "the column 'a' holds 'y', which cannot be read as a number",
    ),
    "no names": ("5.1,3.5,a\n4.9,3,a\n", r"first line is 5\.1, 3\.5, a\. .*header=False"),
    "no names, dates": ("2024-01-05,3.5\n2024-01-06,4\n", r"first line is 2024-01-05, 3\.5\. "),
    "no names, numbers": ("5;3,5\n4;3\n", r"first line is 5, 3,5\. "),
    "a workbook": (b"PK\x03\x04" + bytes(100), "may be an Excel workbook: save it as CSV"),
    "compressed": (gzip.compress(b"a,b\n" * 2, mtime=0), r"name it \.csv\.gz"),
    "empty": (b"", r"is empty \(0 bytes\)"),
}


# Rows with one cell more than there are names.
WITH_ONE_MORE = {
    "a delimiter in each row": "x,t,y\n0.5,a, 1,3\n-1.5,b, 2,4\n2.5,c, 1,5\n",
    "after counted rows": "id,t,y\n1,Smith, Anna,3\n2,Jones, Bob,4\n3,Lee, Li,5\n",
    "after repeated words": "town,t,y\nBern,a,1,3\nBern,b,2,4\nUlm,c,1,5\n",
}


@pytest.mark.parametrize("name", WITH_ONE_MORE)
def test_names_are_not_shifted_by_delimiters_in_cells(tmp_path, name):
    file = write(tmp_path, WITH_ONE_MORE[name])
    with pytest.raises(ValueError, match=r"rows have 4 cells, but the first line names 3 columns"):
        read(file)


def test_what_may_be_names_of_rows_is_said(tmp_path):
    file = write(tmp_path, "mpg,cyl\nMazda RX4,21,6\nDatsun 710,22.8,4\n")
    with pytest.warns(UserWarning, match="taken for the name of the row, such as 'Mazda RX4'"):
        names = schema(file).names
    assert names == ["column_1", "mpg", "cyl"]


@pytest.fixture
def small_pieces(monkeypatch):
    """Find out from 400 bytes, infer from 800, read 256 at a time."""
    monkeypatch.setattr(csv_files, "_SNIFFED_BYTES", 400)
    monkeypatch.setattr(csv_files, "INFERENCE_BYTES", 800)
    monkeypatch.setattr(csv_files, "_BLOCK_BYTES", 256)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_read_names_the_line(tmp_path, name):
    content, said = BROKEN[name]
    file = write(tmp_path, content)
    with pytest.raises(ValueError, match=rf"towns\.csv.*{said}"):
        read(file)


def test_what_is_told_wrongly_names_the_line(tmp_path):
    file = write(tmp_path, "a,b\n1,2\n3,ä\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"line 3 holds bytes that are no UTF-8"):
        read(file, dialect=CsvDialect(encoding="utf-8"))


# -- what comes late ------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_gaps_and_comments_may_come_far_below(tmp_path, encoding):
    n = 1000
    text = "a,ö,c\n" + "1,x,2.5\n" * n + "-,-,2.5\n# end, or so\n  \n2,NA,?\n"
    file = write(tmp_path, text.encode(encoding))
    assert read(file) == {
        "a": [*[1] * n, None, 2],
        "ö": [*["x"] * n, "-", None],
        "c": [*[2.5] * (n + 1), None],
    }
    assert read(file, columns=["c", "a"]) == {
        "c": [*[2.5] * (n + 1), None],
        "a": [*[1] * n, None, 2],
    }
    assert place_of(file, n) == f"line {n + 2:,} of towns.csv"
    assert place_of(file, n + 1) == f"line {n + 5:,} of towns.csv"


def test_pyarrow_alone_reads_what_it_can(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("read line by line")

    monkeypatch.setattr(csv_files, "_by_blocks", refuse)
    for name in ("plain", "semicolons", "bars", "gaps", "single quotes", "blanks around names"):
        content, expected, _ = FILES[name]
        assert read(write(tmp_path, content)) == expected


@pytest.mark.parametrize("name", ["a,b\n", "ä,b\n", "# c\na,b\n", "a, b\n\n", "a,b\n# c"])
def test_names_without_rows_are_a_table_without_rows(tmp_path, name):
    file = write(tmp_path, name.encode("latin-1"))
    assert list(read_tables(file)) == []
    assert schema(file).names == ["ä" if "ä" in name else "a", "b"]


def test_a_file_of_empty_lines_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"towns\.csv"):
        schema(write(tmp_path, "\n\n"))
    with pytest.raises(ValueError, match=r"towns\.csv holds no line that could be a header"):
        schema(write(tmp_path, "\n\n".encode("utf-16")))


@pytest.mark.usefixtures("small_pieces")
def test_told_comments_may_come_far_below(tmp_path):
    file = write(tmp_path, "a,b\n" + "1,2\n" * 500 + "% c, d\n3,4\n")
    assert read(file, dialect=CsvDialect(comment="%"))["a"] == [*[1] * 500, 3]


@pytest.mark.usefixtures("small_pieces")
def test_rows_longer_than_a_block_are_whole(tmp_path):
    rows = ["\n".join(["ä"] * 300), "short", "b" * 600]
    text = io.StringIO()
    csv.writer(text, delimiter=";").writerows([["a", "b"], *([row, 1] for row in rows)])
    file = write(tmp_path, text.getvalue().encode("latin-1"))
    assert read(file) == {"a": rows, "b": [1, 1, 1]}


@pytest.mark.usefixtures("small_pieces")
def test_memory_does_not_grow_with_the_file_when_lines_are_cut_here(tmp_path):
    def most_memory(n):
        file = write(
            tmp_path, ("ä,b\n" + 'some text,"2.5"\n# no\n' * n).encode("latin-1"), f"{n}.csv"
        )
        before, most = pa.total_allocated_bytes(), 0
        tracemalloc.start()
        for _ in read_tables(file, rows_per_table=100):
            most = max(most, pa.total_allocated_bytes() - before)
        most += tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    most_memory(100)  # what is imported and kept
    small, large = most_memory(1000), most_memory(9000)
    assert large - small < 20_000  # of 160 kB more


def test_streams_and_trainings_read_what_they_are_told(tmp_path):
    rows = "".join(f"{n % 7},5~{n % 5},25~{n % 3}\n" for n in range(40))
    path = CsvPath(write(tmp_path, "a~b~y\n" + rows), CsvDialect("~", ",", "cp1250"))
    batches = list(stream(path, target="y", batch_size=8))
    assert batches[0][0][:2].tolist() == [[0.5, 0.25], [1.5, 1.25]]
    training = FileTraining(path, "y", task="regression", options={"expansion": "full"})
    training.start()
    assert training.rows_.columns_ == ["a", "b", "y"]
    assert fingerprint(training.data)["columns"] == ["a: double", "b: double", "y: int64"]


# -- round trips ----------------------------------------------------------------------------------

LETTERS = "abcxyzäöé"
CELLS = {
    "text": st.text(alphabet=f"{LETTERS} ,;|\t'\"#\n.-", max_size=8).map(lambda t: f"t{t}t"),
    "whole": st.integers(-(10**6), 10**6),
    "number": st.floats(-1e6, 1e6).map(lambda x: round(x, 4)),
}


@st.composite
def written(draw, sure):
    """Draw a table, and how it is written; ``sure`` if it can be found out."""
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=2 if sure else 1, max_size=4))
    n = draw(st.integers(3 if sure else 1, 8))
    names = draw(
        st.lists(
            st.text(alphabet=LETTERS, min_size=1, max_size=5),
            min_size=len(kinds),
            max_size=len(kinds),
            unique=True,
        )
    )
    columns = [draw(st.lists(CELLS[kind], min_size=n, max_size=n)) for kind in kinds]
    dialect = CsvDialect(
        delimiter=draw(st.sampled_from(",;\t|")),
        decimal=draw(st.sampled_from(".,")),
        encoding=draw(st.sampled_from(["utf-8", "cp1252", "utf-16"])),
        quote=draw(st.sampled_from("\"'")),
    )
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return kinds, dict(zip(names, columns, strict=True)), dialect, quoting, end


def save(folder, table, dialect, quoting, end, mark=True):
    """Write a table with Python's csv."""
    text = io.StringIO(newline="")
    writer = csv.writer(
        text,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        quoting=quoting,
        lineterminator=end,
    )
    writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow(
            [
                repr(cell).replace(".", dialect.decimal) if isinstance(cell, float) else cell
                for cell in row
            ]
        )
    return write(folder, text.getvalue().encode(dialect.encoding))


def same(found, table):
    return list(found) == list(table) and all(found[name] == table[name] for name in table)


ROUND = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@ROUND
@given(written(sure=False))
def test_what_was_written_is_read_back_when_it_is_told(tmp_path, drawn):
    _, table, dialect, quoting, end = drawn
    file = save(tmp_path, table, dialect, quoting, end)
    dialect = CsvDialect(dialect.delimiter, dialect.decimal, dialect.encoding, dialect.quote, "")
    assert same(read(file, dialect=dialect), table)


@ROUND
@given(written(sure=True))
@example(
    (
        ["text", "text"],
        {"a": ["t,t", "t,t", "t,t"], "aa": ["tt", "tt", "t\n,,t"]},  # as if it had row names
        CsvDialect(",", ".", "utf-8", "'"),
        csv.QUOTE_ALL,
        "\n",
    )
)
@example(
    (
        ["text", "text"],
        {"a": ["tt", "tt", 't\t"t'], "b": ["tt", "tt", "tt"]},  # two cells in each row by " too
        CsvDialect("\t", ".", "utf-8", "'"),
        csv.QUOTE_ALL,
        "\n",
    )
)
def test_what_was_written_is_read_back_when_it_is_found_out(tmp_path, drawn):
    _, table, dialect, quoting, end = drawn
    # Single quotes can be told from apostrophes where they are around everything.
    assume(dialect.quote == '"' or quoting == csv.QUOTE_ALL)
    file = save(tmp_path, table, dialect, quoting, end)
    assert same(read(file), table)


# -- rows that arrive -----------------------------------------------------------------------------


def arriving(content, dialect=None):
    lines = Lines("rows", dialect)
    content = content if isinstance(content, bytes) else content.encode()
    return [row.error or row.values for row in lines.records([content], to_the_end=lambda: True)]


@pytest.mark.parametrize(
    ("content", "dialect", "expected"),
    [
        ("a;b\n1,5;x, y\n", None, {"a": "1.5", "b": "x, y"}),
        ("a;b\n1,5;x\n", CsvDialect(decimal="."), {"a": "1,5", "b": "x"}),
        ("a\tb\n1,5\tx\n", None, {"a": "1,5", "b": "x"}),
        ("a\tb\n1,5\tx\n", CsvDialect(decimal=","), {"a": "1.5", "b": "x"}),
        ("a|b\n1.5|x\n", None, {"a": "1.5", "b": "x"}),
        ("a, m;b\n1,2;3\n", None, {"a, m": "1.2", "b": "3"}),
        ("sep=|\na|b\n1|2\n", None, {"a": "1", "b": "2"}),
        ("a,b\n1,5\n", CsvDialect(delimiter=";"), {"a,b": "1.5"}),
        ("ä;b\n1;ö\n".encode("latin-1"), None, {"ä": "1", "b": "ö"}),
        ("ł;b\n1;ł\n".encode("cp1250"), CsvDialect(encoding="cp1250"), {"ł": "1", "b": "ł"}),
        ("a;b\n1.234,5;+1,5e3\n", None, {"a": "1.234,5", "b": "+1.5e3"}),
        ("a\nHello\n", None, {"a": "Hello"}),
        ("  x    b\n 1.5   y\n", None, {"x": "1.5", "b": "y"}),
        ("x\tb\tc\n 1.5   2\ty\n", None, {"x": "1.5", "b": "2", "c": "y"}),
        ('a b\n1 "x y"\n', None, {"a": "1", "b": "x y"}),
        ('a,b\n1,"say \\"no, ok\\""\n', None, {"a": "1", "b": 'say "no, ok"'}),
        ("a,b\n1,x\\, y\n", None, {"a": "1", "b": "x, y"}),
        ('a,b\n1,"C:\\"\n', None, {"a": "1", "b": "C:\\"}),
        ('a, b\n1, "x, y"\n', None, {"a": "1", "b": "x, y"}),
        ('a, b\n1, "x"\n', None, {"a": "1", "b": "x"}),
        ("ab c\n12xy\n", CsvDialect(widths="2,2"), {"ab": "12", "c": "xy"}),
        ('a,b\n1,"x^",y"\n', CsvDialect(escape="^"), {"a": "1", "b": 'x",y'}),
        ("a,b\n1, x\n", CsvDialect(quote=""), {"a": "1", "b": " x"}),
    ],
)
def test_rows_that_arrive_have_dialects_too(content, dialect, expected):
    assert arriving(content, dialect) == [expected]


@pytest.mark.parametrize(
    ("content", "dialect", "n_cells"),
    [
        ('a, b\n1, "x, y"\n', CsvDialect(blanks=False), 3),
        ("a,b\n1,x\\, y\n", CsvDialect(escape=""), 3),
        ("x\tb\tc\n 1.5   2\ty\n", CsvDialect(delimiter="tab"), 2),
        ("a,b\n1 2\n", None, 1),
    ],
)
def test_what_is_told_of_rows_that_arrive_is_not_given_up(content, dialect, n_cells):
    (said,) = arriving(content, dialect)
    assert said.startswith(f"it has {n_cells} cell")


def test_bytes_of_another_encoding_that_arrive_are_named():
    (said,) = arriving("a;b\n1;ö\n".encode("latin-1"))
    assert "no UTF-8 text; `encoding` tells another" in said
    with pytest.raises(ValueError, match="UTF-16, which is not read line by line"):
        arriving("a;b\n1;2\n".encode("utf-16"))
    with pytest.raises(ValueError, match="`encoding` 'utf-16' is not read line by line"):
        Lines("rows", CsvDialect(encoding="utf-16"))


def test_a_beginning_is_enough_wherever_it_is_cut():
    content = "größe;b\n" + "1,5;ä\n" * 20
    for encoding in ("utf-8", "utf-16", "latin-1"):
        whole = content.encode(encoding)
        expected = sniff(whole).dialect
        for n in range(len("größe;b\n1,5;ä\n1,".encode(encoding)), len(whole)):
            assert sniff(whole[:n], whole=False).dialect == expected


@pytest.mark.parametrize(
    "text", ['{"a": 1}\n{"a": 2}\n', '[{"a": 1},\n {"a": 2}]', ' {\n "a": [1]}']
)
def test_json_is_named_as_such(text):
    with pytest.raises(ValueError, match="holds JSON, not CSV"):
        sniff(text.encode())


@pytest.mark.parametrize("end", ["", ",", ",,"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_title_above_the_names_is_named(delimiter, end):
    lines = [f"Report 2023{end}", end, "town,height", "Bern,540.5", "Bonn,60.25", "Total,"]
    text = "\n".join(lines).replace(",", delimiter).encode()
    with pytest.raises(ValueError, match="begins with 'Report 2023', which looks like a title"):
        sniff(text)
    sniff(text, told=CsvDialect(header=True))  # who says so has names there


@pytest.mark.parametrize(
    "text",
    ["height\n53,5\n60,25\n61,5\n", "place\nBern, Switzerland\nBonn, Germany\nRome, Italy\n"],
)
def test_one_column_with_commas_has_no_title(text):
    assert sniff(text.encode()).names in (("height",), ("place",))


def test_a_name_for_some_columns_is_no_title():
    assert sniff(b",x\na,NA\nb,1.5\nc,2.5\nd,3.5\n").names == ("column_1", "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!DOCTYPE html>\n<html><body>Sign in</body></html>\n", "holds a page of the web"),
        ("\n<html>\n<body>a,b</body></html>\n", "holds a page of the web"),
        ('<?xml version="1.0"?>\n<rows><row a="1"/></rows>\n', "holds XML"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", "git lfs pull"),
        ("@RELATION a\n\n@ATTRIBUTE x numeric\n@DATA\n1\n", "holds ARFF"),
    ],
)
def test_other_texts_are_named(text, said):
    with pytest.raises(ValueError, match=said):
        sniff(text.encode())


def test_threads_that_read_ahead_hold_no_object_of_python(tmp_path, monkeypatch):
    # One that lets go of such an object while Python ends aborts the process.
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    given, read = [], pa.BufferReader
    monkeypatch.setattr(pa, "BufferReader", lambda data: given.append(data) or read(data))
    assert schema(tmp_path / "a.csv").names == ["x", "y"]
    assert given
    assert all(buffer.is_mutable for buffer in given)  # pyarrow's own memory; bytes are not


@pytest.mark.parametrize("line", ["0000049105306A", "a;b"])
def test_a_file_of_one_column_says_how_to_tell_of_more(tmp_path, line):
    (tmp_path / "data.txt").write_text(f"{line}\n" * 9)
    with pytest.raises(ValueError, match="has no column 'y'") as caught:
        list(read_tables(tmp_path / "data.txt", columns=["y"]))
    told = "`dialect=CsvDialect(widths=...)`"
    assert (told in str(caught.value)) == (";" not in line)
