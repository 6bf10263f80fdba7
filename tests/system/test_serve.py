"""The page to try a model: what it answers, what it refuses, and that it reaches nothing else."""

import bz2
import csv
import gzip
import http.client
import io
import json
import math
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from datetime import date, timedelta
from datetime import time as clock
from html import unescape
from types import SimpleNamespace
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

from command_line import run
from mercer import KernelClassifier, KernelRegressor, __version__, load_model
from mercer.columns import TablePreprocessor
from mercer.expansions import KOMP
from mercer.kernels import Gaussian
from mercer_app.files import read_tables
from mercer_app.rows import TableRows
from mercer_app.serve import Answers, ModelServer, _answers, _page, _server

pytestmark = pytest.mark.usefixtures("quickest_race", "quick_correction")

ODD = '<b>Linz</b> & "co"'  # a category that is HTML
WORDS = ["bright", "noisy", "central", "garden", "lake", "old", "new", "quiet", "balcony", "park"]
ROW = {
    "area": 100,
    "town": "Ulm",
    "built": "16.03.1969",
    "listed": "2023-08-04",
    "lift": True,
    "text": "bright lake",
}
MISSPELT = {"aera" if name == "area" else name: cell for name, cell in ROW.items()}
TYPED = {**ROW, "lift": "true"}


def homes(path, n=420):
    """Gaps, categories, dates as text and as such, truth values, free text, amounts."""
    rng = np.random.default_rng(0)
    towns = ["Bern", "Bonn", "Ulm", "Graz", ODD]
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*ROW, "price"])
        for _ in range(n):
            area, town = round(float(rng.uniform(20, 160)), 1), int(rng.integers(5))
            text, lift = " ".join(rng.choice(WORDS, 6)), bool(rng.integers(2))
            built = date(1950, 1, 1) + timedelta(days=int(rng.integers(0, 26000)))
            listed = date(2023, 1, 1) + timedelta(days=int(rng.integers(0, 700)))
            price = 2000 * area * (1 + 0.2 * town) + 1e5 * ("lake" in text) + 2e4 * lift
            rows.writerow(
                [
                    *(area if rng.random() > 0.05 else "", towns[town], f"{built:%d.%m.%Y}"),
                    *(listed, str(lift).lower(), text, f"${price:,.0f}"),
                ]
            )


def points(path, n=300):
    """Two numbers, classes and a quantity."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, n)).round(3)
    kind = np.where(a > 0.5, "high", np.where(b > 0, "left", "right"))
    table = {"a": a, "b": b, "kind": kind, "above": np.where(a > b, "ja", "nö"), "sum": a + b}
    pq.write_table(pa.table(table), path)


FITS = {
    "homes": ("homes.csv", "--target", "price"),
    "classes": ("points.parquet", "--target", "kind", "--exclude", "above", "--exclude", "sum"),
    "binary": ("points.parquet", "--target", "above", "--exclude", "kind", "--exclude", "sum"),
    "quantiles": (
        *("points.parquet", "--target", "sum", "--exclude", "kind", "--exclude", "above"),
        *("--quantiles", "0.1,0.5,0.9"),
    ),
    "novelty": (
        *("points.parquet", "--task", "novelty", "--exclude", "kind", "--exclude", "above"),
        *("--exclude", "sum"),
    ),
    "rank": (
        *("points.parquet", "--target", "above", "--task", "rank", "--exclude", "kind"),
        *("--exclude", "sum", "--max-size", "40"),
    ),
    "gp": (
        *("points.parquet", "--target", "sum", "--task", "gp", "--exclude", "kind"),
        *("--exclude", "above", "--features", "64"),
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    homes(folder / "homes.csv")
    points(folder / "points.parquet")
    return folder


@pytest.fixture(scope="module")
def models(folder, quickest_race, quick_correction):
    """Model files, made when they are asked for."""
    made = {}

    def model(name):
        if name not in made:
            data, *options = FITS[name]
            made[name] = folder / f"{name}.mercer"
            words = ("fit", folder / data, *options, "--out", made[name], "--quiet")
            assert run(*words) == 0
        return made[name]

    return model


@contextmanager
def serving(answers, title="page", **options):
    with ModelServer(answers, title=title, port=0, **options) as server:
        thread = threading.Thread(target=server.serve_forever, name="waitress")
        thread.start()
        yield server
    thread.join()


def served(path, coverage=None, **options):
    return serving(Answers(load_model(path), coverage), path.stem, **options)


@pytest.fixture(scope="module")
def servers(models):
    """Servers of models, begun when they are asked for."""
    begun, contexts = {}, []

    def server(name):
        if name not in begun:
            contexts.append(served(models(name)))
            begun[name] = contexts[-1].__enter__()
        return begun[name]

    yield server
    for context in contexts:
        context.__exit__(None, None, None)


@pytest.fixture(scope="module")
def server(servers):
    return servers("homes")


def ask(server, path, body=None, kind="application/json", method=None, **headers):
    """Return status, headers and body of an answer; headers have underscores for hyphens."""
    client = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None and kind is not None:
        sent["Content-Type"] = kind
    try:
        client.request(method or ("GET" if body is None else "POST"), path, body, sent)
        answer = client.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        client.close()


def answer(server, path, body=None, **options):
    """Return what JSON says, and check that all is well."""
    status, _, found = ask(server, path, body, **options)
    assert status == 200, found
    return json.loads(found)


def error(server, path, body=None, status=400, **options):
    """Return the message of a refusal, which must be JSON and show no places of this machine."""
    found, headers, text = ask(server, path, body, **options)
    assert found == status, text
    assert headers.get_content_type() == "application/json"
    message = json.loads(text)["error"]
    assert "Traceback" not in message
    assert os.sep + "tmp" not in message
    assert os.getcwd() not in message
    return message


def raw(server, text, seconds=10):
    """Send bytes as they are, but ask for an end, and return what comes back."""
    text = text.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nConnection: close\r\n", 1)
    with socket.create_connection(server.server_address, timeout=seconds) as client:
        client.sendall(text)
        pieces = []
        while piece := client.recv(2**16):
            pieces.append(piece)
    return b"".join(pieces)


def json_rows(path, n):
    """Return the first rows of a file as JSON has them."""
    rows = next(read_tables(path)).slice(0, n).to_pylist()
    return [
        {name: cell.isoformat() if isinstance(cell, date) else cell for name, cell in row.items()}
        for row in rows
    ]


# -- what it answers ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FITS)
def test_answers_are_those_of_predict(name, servers, models, folder, tmp_path, mercer):
    server, data = servers(name), folder / FITS[name][0]
    said = answer(server, "/model")
    has_interval = said["interval"]
    assert has_interval == (name not in ("novelty", "rank"))
    told = ("--interval", "0.8") if has_interval else ()
    words = ("predict", models(name), data, "--out", tmp_path / "told.csv", *told)
    assert mercer(*words)[0] == 0
    expected = (tmp_path / "told.csv").read_bytes()
    query = "?interval=0.8" if has_interval else ""
    status, headers, found = ask(
        server, f"/batch{query}", data.read_bytes(), "application/octet-stream"
    )
    assert status == 200, found
    assert found == expected
    rows = list(csv.DictReader(io.StringIO(expected.decode())))
    assert headers["Mercer-Rows"] == str(len(rows))
    asked = {"rows": json_rows(data, 5)} | ({"interval": 0.8} if has_interval else {})
    for row, mine in zip(rows, answer(server, "/predict", asked)["predictions"], strict=False):
        assert list(mine) == list(row)
        for column, value in mine.items():
            if isinstance(value, list):
                assert "|".join(value) == row[column]
            elif isinstance(value, str):
                assert value == row[column]
            else:  # sums in single precision are rounded by how many rows there are
                assert_allclose(value, float(row[column]), rtol=1e-4, atol=1e-4)
    if said["explain"]:
        told = answer(server, "/predict", {"rows": json_rows(data, 2), "explain": True})
        for why in told["explanations"]:
            total = why["baseline"] + sum(why["contributions"].values())
            assert_allclose(total, why["prediction"], rtol=1e-4, atol=1e-4)
            assert set(why["contributions"]) == {column["name"] for column in said["columns"]}
            assert why.keys() == {
                *("quantity", "output", "prediction", "baseline", "contributions")
            }
            assert name != "classes" or why["output"] in said["classes"]
    else:
        assert error(server, "/predict", {"rows": json_rows(data, 2), "explain": True})
    status, _, html = ask(server, "/")
    assert status == 200
    assert 'class="answer"' not in html.decode()
    typical = unescape(re.search(r'href="(/\?[^"]+)"', html.decode())[1])
    status, _, html = ask(server, typical)
    assert status == 200
    assert 'class="answer"' in html.decode() or name in ("rank", "quantiles")


def test_a_row_alone_and_a_list_of_rows_are_taken(server):
    one = answer(server, "/predict", ROW)
    assert one == answer(server, "/predict", [ROW]) == answer(server, "/predict", {"rows": [ROW]})
    assert list(one) == ["predictions", "notes"]
    both = answer(server, "/predict", [ROW, ROW | {"area": 20}])["predictions"]
    assert both[0]["prediction"] > both[1]["prediction"]


def test_a_column_may_be_called_rows():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["rows", "a"])
    model = KernelRegressor(kernel=Gaussian(1.0), expansion=KOMP(max_size=10))
    row = {"rows": 0.5, "a": 1.0}
    with serving(Answers(model.fit(frame, frame["a"]))) as server:
        one = answer(server, "/predict", row)["predictions"]
        assert len(one) == 1
        for asked in ([row], {"rows": [row]}):
            assert answer(server, "/predict", asked)["predictions"] == one
        assert len(answer(server, "/predict", {"rows": [row, row]})["predictions"]) == 2
        assert answer(server, "/predict", row | {"rows": None})["notes"]  # a gap, none of a list


def test_answers_are_json_in_utf_8(servers, monkeypatch):
    server = servers("binary")
    assert "nö".encode() in ask(server, "/model")[2]
    monkeypatch.setattr(server.routes.answers, "described", lambda: {"a": math.nan})
    assert "JSON" in error(server, "/model")


def test_as_many_notes_are_in_a_header_as_have_room(server, folder, monkeypatch):
    rows = list(csv.DictReader(io.StringIO((folder / "homes.csv").read_text(encoding="utf-8"))))
    rows[0]["town"], rows[1]["lift"] = "Rom", ""
    text = io.StringIO()
    file = csv.DictWriter(text, [*rows[0], "more"])
    file.writeheader()
    file.writerows(row | {"more": 1} for row in rows)

    def told():
        status, headers, _ = ask(server, "/batch", text.getvalue().encode(), "text/csv")
        assert status == 200
        assert headers["Content-Disposition"] == 'attachment; filename="predictions.csv"'
        return json.loads(headers["Mercer-Notes"])

    notes = told()
    assert len(notes) == 3
    for room, n in ((0, 3), (-1, 2)):
        monkeypatch.setattr(_server, "_MOST_NOTES", len(json.dumps(notes)) + room)
        assert told() == notes[:n]


def test_labels_of_numbers_and_dates_are_those_of_json():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    row, options = {"a": 0.5, "b": 1.0}, {"kernel": Gaussian(1.0), "expansion": KOMP(max_size=10)}
    model = KernelClassifier(**options).fit(frame, np.digitize(frame["a"], [-0.5, 0.5]))
    told = Answers(model).rows([row], explain=True)
    assert json.loads(json.dumps(told.predictions))[0]["prediction"] in (1, 2)
    assert json.loads(json.dumps(told.explanations))[0]["output"] in (0, 1, 2)
    days = np.datetime64("2024-01-01") + np.digitize(frame["a"], [-0.5, 0.5]) * 100
    model = KernelRegressor(normalize_y=True, **options).fit(frame, days)
    told = Answers(model).rows([row])
    assert re.match(r"202[34]-\d\d-\d\d", told.predictions[0]["prediction"])


def test_what_is_no_number_of_json_is_null(server, monkeypatch):
    monkeypatch.setattr(_answers, "predictions", lambda *_: {"prediction": np.array([np.inf])})
    assert answer(server, "/predict", ROW)["predictions"] == [{"prediction": None}]


def test_what_cannot_be_asked_is_known_beforehand(models, servers, monkeypatch):
    server = servers("novelty")
    said = "`interval` is of quantities and classes, but this is novelty. Leave it out."
    assert error(server, "/predict", {"rows": [{"a": 1, "b": 2}], "interval": 0.5}) == said
    assert error(server, "/batch?interval=0.5", b"a,b\n1,2\n", kind="text/csv") == said
    with pytest.raises(ValueError, match="learned arrays, whose columns have no names"):
        Answers(KernelRegressor(kernel="linear", expansion="komp").fit([[0.0], [1.0]], [0.0, 1.0]))
    model, asked = load_model(models("binary")), []

    def refuse(reads, coverage):
        if coverage is not None:
            raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(Answers, "rows", lambda _, rows, coverage: asked.append((rows, coverage)))
        answers = Answers(model)
        assert asked == [([answers.typical()], 0.9)]  # so that all is compiled
        patch.setattr(_answers, "check_interval", refuse)
        answers = Answers(model)
    assert (answers.no_interval, answers.coverage) == ("ValueError", None)


@pytest.mark.parametrize("kind", [ValueError, AttributeError])
def test_what_cannot_be_explained_is_known_beforehand(kind, monkeypatch):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 2)), columns=["a", "b"])
    options, row = {"kernel": Gaussian(1.0), "expansion": KOMP(max_size=5)}, {"a": 0.5, "b": 1.0}
    few, enough = (KernelRegressor(**options).fit(frame[:n], frame["a"][:n]) for n in (1, 2))
    assert Answers(enough).rows([row], explain=True).explanations
    with pytest.raises(ValueError, match="explain"):
        Answers(few).rows([row], explain=True)
    assert Answers(few).no_explanation

    def refuse(*_, **__):
        raise kind("as it is so")

    with monkeypatch.context() as patch:
        patch.setattr(_answers, "explained", refuse)
        answers = Answers(enough)
    assert answers.no_explanation == "as it is so"
    with pytest.raises(ValueError, match="as it is so"):
        answers.rows([row], explain=True)


def test_dates_without_hours_are_shown_without_them():
    n = 60
    table = {
        "day": np.datetime64("2024-01-01") + np.arange(n) % 17 * 9,
        "night": np.datetime64("2024-01-01", "s") + np.arange(n) % 17 * 777_600 + 4000,
        "y": np.random.default_rng(0).normal(size=n),
    }
    model = KernelRegressor(kernel=Gaussian(1.0), expansion=KOMP(max_size=5))
    columns = Answers(
        TableRows(model, TablePreprocessor(exclude=("y",)), "y").partial_fit(table).model
    ).columns
    assert [one.has_hours for one in columns] == [False, True]
    assert [len(one.typical) for one in columns] == [10, 16]


def test_typed_cells_mean_what_those_of_a_file_do(server):
    answers = server.routes.answers
    for blank in ({}, dict.fromkeys(ROW, "  ")):
        row, notes = answers.cells(blank)
        assert row == dict.fromkeys(ROW)
        assert notes == []
    row, notes = answers.cells({"area": " 1e2 ", "lift": " TRUE ", "town": " Ulm "})
    assert (row["area"], row["lift"], row["town"]) == (100, True, " Ulm ")
    assert notes == []
    for text, value in (
        *(("NaN", None), ("0.5", 0.5), ("-3", -3)),
        *((str(sign * (2**53 - 1)), sign * (2**53 - 1)) for sign in (1, -1)),
        *((str(sign * 2**53), sign * 2.0**53) for sign in (1, -1)),
    ):
        found = answers.cells({"area": text})[0]["area"]
        assert (found, type(found)) == (value, type(value))
    for text, value in (("True", True), ("FALSE", False), ("perhaps", "perhaps")):
        assert answers.cells({"lift": text})[0]["lift"] == value
    for end in answers.by_name["area"].ends:
        assert answers.cells({"area": repr(end)})[1] == []
    assert "1 is beyond" in answers.cells({"area": "1"})[1][0]


def test_model_describes_its_columns(server, folder):
    said = answer(server, "/model")
    columns = {column["name"]: column for column in said["columns"]}
    assert (said["task"], said["target"], said["ignored"]) == ("regression", "price", ["price"])
    assert list(columns) == list(ROW)
    assert [column["kind"] for column in columns.values()] == [
        *("number", "category", "date", "date", "boolean", "text")
    ]
    assert [name for name, column in columns.items() if column["gaps"]] == ["area"]
    assert columns["area"]["minimum"] < columns["area"]["typical"] < columns["area"]["maximum"]
    assert (
        columns["listed"]["minimum"] < columns["listed"]["typical"] < columns["listed"]["maximum"]
    )
    with open(folder / "homes.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    areas = [float(row["area"]) for row in rows if row["area"]]
    assert columns["area"]["typical"] == float(f"{np.mean(areas):.4g}")
    towns = Counter(row["town"] for row in rows)
    assert columns["town"]["categories"] == sorted(towns, key=lambda town: (-towns[town], town))
    assert columns["town"]["typical"] == columns["town"]["categories"][0]
    assert ODD in towns
    assert (said["mercer"], said["rows_measured"]) == (__version__, 420)
    for name, key in (("text", "typical"), ("area", "categories"), ("lift", "minimum")):
        assert key not in columns[name]
    assert re.fullmatch(r"\d\d\.\d\d\.19\d\d", columns["built"]["typical"])
    assert re.fullmatch(r"202\d-\d\d-\d\d", columns["listed"]["typical"])
    assert answer(server, "/health") == {"status": "ok"}


def test_the_page_shows_a_prediction_and_what_was_typed(server):
    status, headers, html = ask(server, f"/?{urlencode(TYPED | {'town': ODD})}")
    text = html.decode()
    assert status == 200
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    price = answer(server, "/predict", ROW | {"town": ODD})["predictions"][0]["prediction"]
    assert f'<p class="answer">${price:,.0f}</p>' in text
    assert "90 % interval" in text
    assert 'name="area" value="100"' in text
    assert 'value="16.03.1969"' in text
    assert '<input type="date" name="listed" value="2023-08-04"' in text
    assert ">bright lake</textarea>" in text
    assert ODD not in text  # escaped everywhere
    assert "selected>&lt;b&gt;Linz" in text


def test_numbers_of_the_page_are_as_people_write_them(server):
    html = ask(server, f"/?{urlencode(TYPED)}")[2].decode()
    adds = re.findall(r"<td>([+\N{MINUS SIGN}][^<]*)</td>", html)
    assert len(adds) > 3
    decimals = {len(add.partition(".")[2]) for add in adds}
    assert len(decimals) == 1  # one unit, the same digits
    assert "e-" not in html.partition("Why")[2].partition("<details>")[0]
    assert not re.search(r"<small>[^<]*e\+", html)


def test_the_page_has_intervals_of_the_coverage_that_was_asked_for(models):
    with served(models("homes"), 0.8) as server:
        html = ask(server, f"/?{urlencode(TYPED)}")[2].decode()
        asked = {"rows": [ROW], "interval": 0.8}
        ends = answer(server, "/predict", asked)["predictions"][0]
    assert "80 % interval" in html
    assert "90 %" not in html
    assert f"${ends['lower']:,.0f} to ${ends['upper']:,.0f}" in html
    assert 'data-address="/batch?interval=0.8"' in html
    assert "&#34;interval&#34;: 0.8" in html


@pytest.mark.parametrize("name", ["binary", "classes"])
def test_the_page_shows_probabilities_and_the_set(name, servers):
    server = servers(name)
    text = ask(server, "/?a=3&b=0")[2].decode()
    shares = {
        unescape(label): float(share)
        for label, share in re.findall(
            r'<th scope="row">([^<]*)</th><td><svg.*?</td><td>([\d.]+)%', text
        )
    }
    assert set(shares) == set(answer(server, "/model")["classes"])
    assert sum(shares.values()) == pytest.approx(100, abs=0.2)
    assert f'<p class="answer">{max(shares, key=shares.get)}</p>' in text
    assert "90 % set" in text


def test_gaps_new_categories_and_unknown_columns_are_said_as_predict_says_them(
    server, models, folder, tmp_path, mercer
):
    row = ROW | {"town": "Rom", "lift": None, "more": {"any": "thing"}}
    notes = answer(server, "/predict", row)["notes"]
    with open(folder / "odd.csv", "w", newline="") as file:
        rows = csv.DictWriter(file, row)
        rows.writeheader()
        rows.writerow(row | {"more": 1})
    words = ("predict", models("homes"), folder / "odd.csv", "--out", tmp_path / "x.csv")
    code, _, err = mercer(*words)
    assert code == 0
    said = err.replace("warning: ", "").replace(f"{folder / 'odd.csv'}", "The request")
    assert len(notes) == 3
    for note in notes:
        assert note in said
        assert note[0].isupper()
    text = unescape(ask(server, f"/?{urlencode(TYPED | {'town': 'Rom', 'area': 500})}")[2].decode())
    assert "such as 'Rom'" in text
    assert "500 is beyond what was learned" in text
    assert '<option value="Rom" selected>' in text
    text = unescape(ask(server, f"/?{urlencode(TYPED | {'more': 1})}")[2].decode())
    assert "not looked at, as training had no such column: 'more'" in text


@pytest.mark.parametrize(("column", "cell"), [("listed", "2031-05-01"), ("built", "01.05.2031")])
def test_a_date_beyond_those_learned_is_said(column, cell, server):
    text = unescape(ask(server, f"/?{urlencode(TYPED | {column: cell})}")[2].decode())
    assert re.search(rf"'{column}' was between \d{{4}}-.* in training: 2031-05-01 is beyond", text)
    within = unescape(ask(server, f"/?{urlencode(TYPED)}")[2].decode())
    assert "is beyond what was learned" not in within


def test_an_empty_field_is_a_gap_and_text_of_another_form_is_named(server):
    status, _, html = ask(server, "/?area=&town=Ulm&built=soon")
    text = unescape(html.decode())
    assert status == 200
    assert "'soon' is no date as those of the column 'built' are written" in text
    assert "'lift' (1 row; taken as" in text


def test_files_are_read_in_any_dialect(server, folder):
    expected = ask(server, "/batch", (folder / "homes.csv").read_bytes(), "text/csv")[2]
    rows = list(csv.reader(io.StringIO((folder / "homes.csv").read_text(encoding="utf-8"))))
    rows = [
        [cell.replace("$", "CHF ") if cell.startswith("$") else cell for cell in r] for r in rows
    ]
    german = io.StringIO()
    csv.writer(german, delimiter=";").writerows(
        [row[0].replace(".", ","), *row[1:]] for row in rows
    )
    body = german.getvalue().encode("latin-1")
    status, headers, found = ask(server, "/batch?keep=town", body, "text/csv")
    assert status == 200, found
    assert "separated by ';'" in json.loads(headers["Mercer-Notes"])[0]
    kept = list(csv.DictReader(io.StringIO(found.decode())))
    assert [row["town"] for row in kept] == [row[1] for row in rows[1:]]
    assert [row["prediction"] for row in kept] == expected.decode().split()[1:]


def test_a_model_that_explains_is_asked_why(models, monkeypatch):
    def explain(model, table, X, **options):
        n = len(X)
        return SimpleNamespace(
            quantity="prediction",
            output=None,
            prediction=np.full(n, 8.0),
            baseline=5.0,
            largest=lambda row: [("area", 4.0), ("town", -1.0)],
        )

    monkeypatch.setattr(_answers, "explained", explain)
    with served(models("homes")) as server:
        assert answer(server, "/model")["explain"]
        told = answer(server, "/predict", {"rows": [ROW], "explain": True})["explanations"]
        assert told[0]["contributions"] == {"area": 4.0, "town": -1.0}
        assert told[0]["baseline"] == 5.0
        text = ask(server, f"/?{urlencode(TYPED)}")[2].decode()
        assert '<rect class="more" x="50.00%" width="50.00%"' in text
        assert '<rect class="less" x="37.50%" width="12.50%"' in text
        many = {"rows": [ROW] * (_answers.MOST_EXPLAINED + 1), "explain": True}
        assert "rows are to be explained" in error(server, "/predict", many, 413)
        assert answer(server, "/predict", many | {"explain": False})["predictions"]
        most = many | {"rows": [ROW] * _answers.MOST_EXPLAINED}
        assert len(answer(server, "/predict", most)["explanations"]) == _answers.MOST_EXPLAINED


def test_the_report_is_shown_from_memory(models, tmp_path):
    with served(models("binary"), report=b"<h1>Report</h1>") as server:
        status, headers, body = ask(server, "/report")
        assert (status, body) == (200, b"<h1>Report</h1>")
        assert headers["Content-Security-Policy"] == _server._REPORT_POLICY
        assert "script" not in _server._REPORT_POLICY
        assert b'href="/report"' in ask(server, "/")[2]


def test_one_thread_at_a_time_asks_the_model(server, folder, monkeypatch):
    inside, most = [], []
    records, columns = Answers._records, _answers.predicted_columns

    def alone(ask):
        def asked(*arguments):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.02)
            inside.pop()
            return ask(*arguments)

        return asked

    monkeypatch.setattr(Answers, "_records", alone(records))
    monkeypatch.setattr(_answers, "predicted_columns", alone(columns))
    body = (folder / "homes.csv").read_bytes()
    asks = [lambda: answer(server, "/predict", ROW)] * 6
    asks += [lambda: ask(server, "/batch", body, kind="text/csv")] * 2
    threads = [threading.Thread(target=one) for one in asks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) >= 8
    assert max(most) == 1


def test_who_reads_slowly_gets_all(models, monkeypatch):
    monkeypatch.setitem(_server._SETTINGS, "channel_timeout", 1)
    report = b"r" * 24_000_000  # more than the system keeps for a connection
    with served(models("binary"), report=report) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(server.server_address)
        client.sendall(b"GET /report HTTP/1.0\r\nHost: localhost\r\n\r\n")
        n_bytes, begun = 0, time.monotonic()
        while piece := client.recv(2**20, socket.MSG_WAITALL):
            n_bytes += len(piece)
            time.sleep(0.1)
    assert time.monotonic() - begun > 2.0
    assert n_bytes > len(report)


def test_there_is_no_report_unless_it_is_named(server):
    said = "There is no report: `mercer serve --report FILE` shows one."
    assert error(server, "/report", status=404) == said
    assert b'href="/report"' not in ask(server, "/")[2]


def test_many_ask_at_once_and_each_gets_its_own_answer(server):
    areas = np.linspace(20, 160, 24).round(1).tolist()
    alone = [answer(server, "/predict", ROW | {"area": a})["predictions"] for a in areas]
    found = {}

    def one(number):
        found[number] = answer(server, "/predict", ROW | {"area": areas[number]})["predictions"]

    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(areas))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n] for n in range(len(areas))] == alone
    assert len({str(one) for one in alone}) == len(areas)


def test_who_sends_slowly_keeps_nobody_waiting(server):
    with socket.create_connection(server.server_address) as slow:
        slow.sendall(b"POST /batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n")
        slow.sendall(b"Content-Length: 1000\r\n\r\narea,")
        assert answer(server, "/health") == {"status": "ok"}
        assert answer(server, "/predict", ROW)["predictions"]


def test_columns_of_every_kind_are_typed_as_a_file_has_them(monkeypatch):
    rng = np.random.default_rng(3)
    n = 200
    day, month = rng.integers(1, 28, n), rng.integers(1, 13, n)
    amounts = rng.uniform(100, 9000, n).round(2)
    table = {
        "when": np.datetime64("2024-01-01", "s") + rng.integers(0, 10**7, n),
        "clock": [clock(int(h), int(m)) for h, m in rng.integers(0, 24, (n, 2))],
        "american": [f"{m}/{d}/2024" for d, m in zip(day, month, strict=True)],
        "compact": 20240000 + 100 * month + day,
        "amount": [None, *(f"{x:,.2f} km" for x in amounts[1:])],
        "codes": [f"c{k}" for k in rng.integers(0, 40, n)],
        "flag": rng.integers(0, 2, n) == 1,
        '<a> "b" & c\'': rng.normal(size=n),
        "rows": rng.normal(size=n),
        "y": rng.normal(size=n),
    }
    model = TableRows(
        KernelRegressor(random_state=0), TablePreprocessor(exclude=("y",)), "y"
    ).partial_fit(table)
    answers = Answers(model.model)
    days = [date(2024, m, d).toordinal() for m, d in zip(month, day, strict=True)]
    mean_day, minutes = date.fromordinal(int(np.mean(days))), table["clock"]
    minutes = round(np.mean([60 * one.hour + one.minute for one in minutes]))
    assert [column.typical for column in answers.columns][:7] == [
        str((table["when"][0] + (table["when"] - table["when"][0]).mean()).astype("<M8[m]")),
        f"{minutes // 60:02}:{minutes % 60:02}",
        f"{mean_day:%m/%d/%Y}",
        f"{mean_day:%Y%m%d}",
        f"{np.mean(amounts[1:]):.4g} km",
        min(table["codes"], key=lambda code: (-table["codes"].count(code), code)),
        "false",
    ]
    assert [one.name for one in answers.columns if one.gaps] == ["amount"]
    ranged = "when", "american", "compact", *list(table)[7:9]
    assert [one.name for one in answers.columns if one.ends] == [*ranged]
    written = {"when": "2024-03-01T05:29", "clock": "21:05", "american": "2/28/2024"}
    written |= {"compact": "20240131", "amount": "1,234.5 km", "codes": "c3", "flag": "true"}
    written |= dict.fromkeys(list(table)[7:9], "0.25")
    row, notes = answers.cells(written)
    assert notes == []
    exact = {name: [cell] for name, cell in row.items()}
    exact |= {"when": [np.datetime64("2024-03-01T05:29")], "clock": [clock(21, 5)]}
    exact["when"] = np.array(exact["when"])
    found = answers.rows([row]).predictions[0]["prediction"]
    assert_allclose(found, answers.model.predict(exact)[0], rtol=1e-6)
    for text, hour in (
        *(
            (" 20240301T0529 ", " T2105 "),
            ("20240301T0729+0200", "2105"),
            ("2024-W09-5T05:29", None),
        ),
    ):
        asked = row | {"when": text, "clock": hour or row["clock"]}
        told = answers.rows([asked, asked | {"when": None, "clock": None}]).predictions
        assert_allclose(told[0]["prediction"], found, rtol=1e-6)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        told = answers.rows([row | {"when": "20240301T0529"}]).predictions
    time.tzset()
    assert_allclose(told[0]["prediction"], found, rtol=1e-6)
    (note,) = answers.cells(written | {"compact": "20310501"})[1]
    assert re.search(r"'compact' was between 2024-01-\d\d and 2024-12-\d\d .* 2031-05-01 is", note)
    assert answers.cells(written | {"compact": "7"})[1] == []
    others, notes = answers.cells(written | {"amount": "far", "clock": "late"})
    assert ["'far' is no number" in note for note in notes] == [True]
    with pytest.raises(
        ValueError, match="'clock' held times of the day in training but now holds 'late'"
    ):
        answers.rows([others])
    shown = _page.page(
        "x", answers, _page.Shown(written, answers.rows([row])), report=False, most_bytes=1
    )
    assert '<input type="datetime-local" step="any" name="when" value="2024-03-01T05:29"' in shown
    assert '<input type="time" step="any" name="clock" value="21:05"' in shown
    assert 'name="&lt;a&gt; &#34;b&#34; &amp; c&#39;"' in shown
    assert "<a>" not in shown


# -- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (MISSPELT, "The request has no column 'area'. Did you mean 'aera'?"),
        (ROW | {"area": "abc"}, "'area' held numbers in training but now holds 'abc'"),
        (ROW | {"town": "\ud800"}, "no Unicode"),
        (ROW | {"area": [1]}, "Column 'area' holds a list in row 0 of the request"),
        (ROW | {"town": 3}, "'town' held text or categories in training but now holds numbers"),
        ([ROW, ROW | {"town": 3}], "now holds a number, 3, too"),
        (ROW | {"area": True}, "'area' held numbers in training but now holds"),
        (ROW | {"area": 10**400}, "Infinite or huge numbers"),
        (ROW | {"listed": "tomorrow"}, "now holds 'tomorrow' in row 0"),
        ([ROW, {"area": 1}], "Row 1 of the request has no columns 'town', 'built'"),
        ([ROW, 7], "Row 1 of the request must be an object of columns and values, got a number"),
        ([ROW, "x"], "Row 1 of the request must be an object of columns and values, got text."),
        ([ROW, None], "Row 1 of the request must be an object of columns and values, got null."),
        (ROW | {"area": {"a": 1}}, "Column 'area' holds an object in row 0 of the request"),
        ([ROW, ROW | {"area": [1]}], "Column 'area' holds a list in row 1 of the request"),
        ([ROW | {"town": None}, ROW, ROW | {"town": 3}], "now holds a number, 3, too"),
        ([], "The request holds no rows"),
        ("text", 'The request must be a row, or {"rows": [...]}'),
        ({"rows": 5}, '"rows" must be a list'),
        ({"rows": [ROW], "coverage": 0.9}, "Besides rows there can be interval and explain"),
        ({"rows": [ROW], "interval": 2}, "`interval` must be a finite number in (0, 1), got 2"),
        ({"rows": [ROW], "interval": "much"}, "`interval` must be a finite number in (0, 1)"),
        ({"rows": [ROW], "explain": 1}, "`explain` must be true or false"),
        (b'{"area": NaN}', "NaN is no number in JSON"),
        (b'{"area": -Infinity}', "-Infinity is no number in JSON"),
        (b'{"area": 1e999}', "The request has no columns"),
        (b'{"area": 1, "area": 2}', "The request has 'area' twice"),
        (b'{"town": 1, "area": 1, "area": 2}', "The request has 'area' twice"),
        (b'{"area": 1', "The request is no JSON: Expecting ',' delimiter in line 1, column 11"),
        (b"", "The request is no JSON"),
        (b'"\xff"', "it is not in UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_bad_request_is_refused_with_a_reason(row, message, server):
    assert message in error(server, "/predict", row)
    assert answer(server, "/predict", ROW)["predictions"]  # and nothing has changed


def test_reasons_are_sentences_without_options_that_requests_have_not(server):
    said = "The request holds no rows, so there is nothing to predict."
    assert error(server, "/predict", []) == said


def test_a_cell_among_others_that_is_no_number_is_a_gap_and_said(server):
    told = answer(server, "/predict", {"rows": [ROW, ROW | {"area": "abc"}]})
    gap = answer(server, "/predict", {"rows": [ROW, ROW | {"area": None}]})
    assert told["predictions"] == gap["predictions"]
    assert any("'area' has 1 cell that cannot be read as a number" in one for one in told["notes"])
    numbers = [1, 2.5, 3, 40, 50]
    areas = [*numbers, "abc", True, None], [*numbers, None, None, None]
    told, gaps = (answer(server, "/predict", [ROW | {"area": a} for a in some]) for some in areas)
    assert told["predictions"] == gaps["predictions"]
    assert any("'area' has 2 cells that cannot be read" in one for one in told["notes"])


def test_an_infinite_number_is_refused(server):
    row = json.dumps(ROW | {"area": 7}).replace("7", "1e999", 1).encode()
    assert "Infinite or huge numbers" in error(server, "/predict", row)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The file is empty"),
        (b"a,b\n1,2\n", "The file has no columns 'area', 'town'"),
        (b"area,town\n1,2,3\n", "The file: line 2 has 3 cells, but there are 2 columns"),
        (b"PAR1 no more", "The file could not be read, it may be damaged"),
        (b"PK\x03\x04...", "ZIP archive or a spreadsheet"),
        (b"\x00\x01\x02" * 50, "zero bytes"),
        (b"area,town\n1,2,3\n", "`--delimiter`. Such options are those of `mercer predict`."),
        (b"\x1f\x8b\x00", "The file could not be read"),
        (gzip.compress(b"area\n1\n", mtime=0)[:-9], "The file could not be read"),
        (b"BZh9" + b"x" * 20, "The file could not be read"),
        (gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20, "The file could not be read"),
    ],
)
def test_a_bad_file_is_refused_with_a_reason(body, message, server):
    assert message in error(server, "/batch", body, kind="application/octet-stream")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_file_that_grows_without_end_is_refused(pack, server, folder, monkeypatch):
    body = (folder / "homes.csv").read_bytes()
    plain = ask(server, "/batch", body, kind="text/csv")[2]
    assert ask(server, "/batch", pack(body), kind="application/octet-stream")[2] == plain
    for fewer, status in ((0, 200), (1, 413)):
        monkeypatch.setattr(_answers, "_MOST_UNPACKED", len(body) - fewer)
        assert ask(server, "/batch", pack(body), kind="application/octet-stream")[0] == status
    monkeypatch.setattr(_answers, "_MOST_UNPACKED", 2**20)
    bomb = pack(body + b"\n" * 2**21)
    assert "when it is unpacked" in error(server, "/batch", bomb, 413, kind="text/csv")


def test_a_file_says_in_which_line_it_is_wrong(server, folder):
    lines = (folder / "homes.csv").read_text(encoding="utf-8").splitlines()
    lines[1:] = [re.sub(r"^[^,]*", "much", line) for line in lines[1:]]
    message = error(server, "/batch", "\n".join(lines).encode(), kind="text/csv")
    assert "'much' in line 2 of the file" in message
    assert "no rows" in error(server, "/batch", f"{lines[0]}\n".encode(), kind="text/csv")
    body = (folder / "homes.csv").read_bytes()
    assert "no column 'nam'" in error(server, "/batch?keep=nam", body, kind="text/csv")
    assert "`interval` and `keep`" in error(server, "/batch?path=/etc", body, kind="text/csv")
    assert "(0, 1)" in error(server, "/batch?interval=x", body, kind="text/csv")
    twice = "/batch?interval=0.9&interval=0.5"
    assert "got several" in error(server, twice, body, kind="text/csv")
    assert "(0, 1)" in error(server, "/batch?interval=", body, kind="text/csv")


def test_too_many_rows_are_refused(server, folder, monkeypatch):
    body = (folder / "homes.csv").read_bytes()
    monkeypatch.setattr(_answers, "MOST_ROWS", 420)
    assert ask(server, "/batch", body, kind="text/csv")[0] == 200
    monkeypatch.setattr(_answers, "MOST_ROWS", 419)
    assert "`mercer predict`" in error(server, "/batch", body, 413, kind="text/csv")


@pytest.mark.parametrize(
    "path",
    [
        *("/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "//etc/passwd"),
        *("/report/../../etc/passwd", "/model/", "/static/x.js", "/..%5c..%5cx", "/index.html"),
        *("http://127.0.0.1/model", "/model%00", "/report%2f..", "/.git/config", "*"),
    ],
)
def test_no_address_is_a_path(path, server):
    assert "no such address" in error(server, path, status=404)


@pytest.mark.parametrize("host", ["evil.com", "localhost.evil.com", "127.0.0.1.nip.io", "", "a@b"])
def test_names_of_other_machines_are_refused(host, server):
    for path in ("/", "/model", "/health", "/report"):
        assert "Host" in error(server, path, Host=host)
    assert "Host" in error(server, "/predict", ROW, Host=host)


def test_names_of_this_machine_are_taken(server):
    for host in ("localhost", "127.0.0.1", "LOCALHOST:9000"):
        assert answer(server, "/health", Host=host) == {"status": "ok"}
    assert b"400" in raw(server, b"GET /health HTTP/1.1\r\n\r\n").split(b"\r\n")[0]
    two = b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\n\r\n"
    assert b"400" in raw(server, two).split(b"\r\n")[0]


def test_every_answer_has_the_headers_that_keep_it_from_others(server):
    for path in ("/health", "/nothing", "/"):
        headers = ask(server, path)[1]
        for name, value in {
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
        }.items():
            assert headers[name] == value
    assert ask(server, "/health")[1]["Content-Security-Policy"] == "default-src 'none'; sandbox"


@pytest.mark.parametrize(
    "kind",
    [
        *("application/octet-stream", "text/csv", "text/tab-separated-values", "application/gzip"),
        *("application/x-gzip", "application/x-bzip2", "application/vnd.apache.parquet"),
        *("application/x-parquet", "application/vnd.apache.arrow.file"),
        *("application/vnd.apache.arrow.stream", " TEXT/CSV ; charset=utf-8"),
    ],
)
def test_files_are_taken_by_their_types(kind, server):
    assert "The file is empty" in error(server, "/batch", b"", kind=kind)


def test_what_is_taken_has_limits():
    settings = {
        "threads": 8,
        "ident": "mercer",
        "log_socket_errors": False,
        "max_request_header_size": 65_536,
        "max_request_body_size": 67_108_865,  # that many are too many
        "recv_bytes": 65_536,
        "connection_limit": 100,
        "channel_timeout": 20,
        "cleanup_interval": 1,
    }
    for name in ("inbuf_overflow", "outbuf_overflow", "outbuf_high_watermark"):
        settings[name] = 2**62  # nothing goes to a file
    assert settings == _server._SETTINGS
    assert (_server.MOST_BYTES, _server._MOST_NOTES) == (67_108_864, 4000)
    seconds = _server.IDLE_SECONDS, _server.BODY_SECONDS, _server._LINGER_SECONDS
    assert seconds == (20, 120.0, 2.0)
    assert {*_server._SAID} == {400, 408, 411, 413, 431, 501}
    limits = _answers.MOST_ROWS, _answers.MOST_EXPLAINED, _answers._MOST_UNPACKED
    assert limits == (1_000_000, 100, 268_435_456)


def test_pages_of_others_cannot_post(server):
    port = server.server_address[1]
    own = f"http://127.0.0.1:{port}"
    assert answer(server, "/predict", ROW, Origin=own)["predictions"]
    assert answer(server, "/predict", ROW, Origin=own.upper())["predictions"]
    for origin in ("http://evil.com", "null", f"https://127.0.0.1:{port}", "http://127.0.0.1:1"):
        assert "none of this server's" in error(server, "/predict", ROW, 403, Origin=origin)
        assert "none of this server's" in error(server, "/model", status=403, Origin=origin)
    status, headers, _ = ask(server, "/predict", method="OPTIONS", Origin="http://evil.com")
    assert status == 405
    assert not [name for name in headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/predict", "text/plain"),
        ("/predict", "application/x-www-form-urlencoded"),
        ("/predict", None),
        ("/batch", "multipart/form-data; boundary=x"),
        ("/batch", "text/plain"),
    ],
)
def test_what_forms_of_others_can_send_is_refused(path, kind, server):
    body = json.dumps(ROW).encode()
    message = error(server, path, body, 415, kind=kind)
    assert "Content-Type" in message
    assert message.endswith(f"got {(kind or 'none').partition(';')[0]}.")
    assert "Content-Encoding" in error(server, "/predict", ROW, 415, Content_Encoding="gzip")


def test_methods_are_refused_where_they_make_no_sense(server):
    assert ask(server, "/predict")[0] == 405
    assert ask(server, "/predict")[1]["Allow"] == "POST"
    assert "takes GET" in error(server, "/", b"x", 405)
    for method in ("PUT", "DELETE", "TRACE", "CONNECT", "PATCH"):
        assert ask(server, "/model", method=method)[0] == 405
    status, headers, body = ask(server, "/model", method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 100
    assert raw(server, b"HEAD /model HTTP/1.1\r\nHost: localhost\r\n\r\n").endswith(b"\r\n\r\n")


def test_a_connection_takes_several_requests_and_ends_after_a_body_that_nobody_reads(server):
    client = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    said = []
    for path in ("/model", "/none", "/health"):
        client.request("GET", path)
        said.append((client.getresponse().read(), client.sock))
    assert b"no such address" in said[1][0]
    assert json.loads(said[2][0]) == {"status": "ok"}
    assert said[0][1] is said[1][1] is said[2][1] is not None
    client.close()
    chunks = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    hidden = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(server.server_address, timeout=10) as one:
        one.sendall(chunks + b"0\r\n\r\n" + hidden)
        with one.makefile("rb") as answers:
            found = answers.read()
    assert found.count(b"HTTP/1.1 ") == 1
    assert found.startswith(b"HTTP/1.1 411")


def test_what_is_too_large_is_refused_without_being_read(server, monkeypatch):
    monkeypatch.setattr(server._server.adj, "max_request_body_size", 2**20)
    message = error(server, "/batch", b"0" * (4 * 2**20), 413, kind="text/csv")
    assert "67,108,864 bytes are the most" in message
    waiting = b"POST /batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
    found = raw(server, waiting + b"Content-Length: 9999999\r\nExpect: 100-continue\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 413")
    long = f"/?area={'1' * 70_000}"
    assert "too long" in error(server, long, status=431)


def test_who_waits_to_be_asked_for_the_body_is_asked(server):
    body = json.dumps(ROW).encode()
    with socket.create_connection(server.server_address, timeout=10) as client:
        client.sendall(
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_who_waits_to_be_asked_for_no_body_is_answered(server):
    start = b"GET /health HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
    for more in (b"", b"Content-Length: 0\r\n"):
        with socket.create_connection(server.server_address, timeout=10) as client:
            client.sendall(start + more + b"\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_errors_are_not_as_long_as_what_was_sent(server):
    asked = {"rows": [ROW], "interval": "a" * 2_000_000}
    assert len(error(server, "/predict", asked)) < 2000


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Transfer-Encoding: chunked\r\n", 411),
        (b"", 411),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n", 400),
        (b"Content-Length: -1\r\n", 400),
        (b"Content-Length: 1e3\r\n", 400),
        (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 411),
    ],
)
def test_bodies_must_say_how_long_they_are(headers, status, server):
    start = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert raw(server, start + headers + b"\r\n{}").split()[1] == b"%d" % status


def test_a_head_that_comes_drop_by_drop_is_given_up(models, monkeypatch):
    monkeypatch.setattr(_server, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(_server, "_LINGER_SECONDS", 0.2)
    with served(models("binary")) as server, socket.create_connection(server.server_address) as one:
        one.sendall(b"GET /health HTTP/1.1\r\nX: ")

        def drip():
            for _ in range(1000):
                one.sendall(b"x")
                time.sleep(0.02)

        with pytest.raises(OSError, match=r"pipe|reset"):
            drip()


def test_what_never_arrives_is_given_up(server, monkeypatch):
    monkeypatch.setattr(_server, "BODY_SECONDS", 0.2)
    monkeypatch.setattr(_server, "_LINGER_SECONDS", 0.0)
    start = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    found = raw(server, start + b"Content-Length: 10\r\n\r\n{")
    assert found.split()[1] == b"408"


def test_what_waits_behind_another_request_is_given_up_after_that(server, monkeypatch):
    rows = server.routes.answers.rows

    def slowly(*arguments, **options):
        time.sleep(0.3)
        return rows(*arguments, **options)

    monkeypatch.setattr(_server, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(_server, "_LINGER_SECONDS", 0.0)
    monkeypatch.setattr(server.routes.answers, "rows", slowly)
    start, body = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n", json.dumps(ROW).encode()
    more = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(server.server_address, timeout=10) as client:
        client.sendall(start + more + body + start)
        with client.makefile("rb") as answers:
            assert re.findall(rb"HTTP/1\.\d (\d+)", answers.read()) == [b"200", b"408"]


def test_nothing_is_answered_after_the_last_word(server, monkeypatch):
    asked, answered = [], _server.Routes._answered

    def noted(routes, environ):
        asked.append(environ["PATH_INFO"])
        return answered(routes, environ)

    monkeypatch.setattr(_server, "_LINGER_SECONDS", 5.0)
    monkeypatch.setattr(_server.Routes, "_answered", noted)
    chunks = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(server.server_address, timeout=3) as client:
        client.sendall(chunks)
        with client.makefile("rb") as answers:
            assert answers.read().startswith(b"HTTP/1.1 411")  # and the end, at once
        client.sendall(b"GET /model HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer(server, "/health") == {"status": "ok"}
        time.sleep(0.05)
    assert asked == ["/health"]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_who_goes_away_during_an_answer_stops_nobody(version, models):
    at_once = struct.pack("ii", 1, 0)
    with served(models("binary"), report=b"r" * 24_000_000) as server:
        with socket.create_connection(server.server_address) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            client.sendall(f"GET /report HTTP/{version}\r\nHost: localhost\r\n\r\n".encode())
            assert client.recv(100)
        assert answer(server, "/health") == {"status": "ok"}


def test_who_closes_a_server_waits_for_its_end(models, monkeypatch):
    server = ModelServer(Answers(load_model(models("binary"))), title="page", port=0)
    ended, run = [], server._server.run

    def slowly():
        run()
        time.sleep(0.2)
        ended.append(True)

    monkeypatch.setattr(server._server, "run", slowly)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    assert answer(server, "/health") == {"status": "ok"}
    server.close()
    assert ended
    assert not server._server.task_dispatcher.threads
    server.close()  # it is closed
    thread.join()


def test_a_server_that_was_never_begun_lets_go_of_its_port(models):
    with ModelServer(Answers(load_model(models("binary"))), title="page", port=0) as server:
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(server.server_address)


def test_who_says_nothing_is_given_up(models, monkeypatch):
    monkeypatch.setitem(_server._SETTINGS, "channel_timeout", 1)
    monkeypatch.setattr(_server, "_LINGER_SECONDS", 0.0)
    with served(models("binary")) as server, socket.create_connection(server.server_address) as one:
        one.settimeout(10)
        assert one.recv(1) == b""


def test_too_many_connections_wait_until_others_end(models, monkeypatch):
    monkeypatch.setitem(_server._SETTINGS, "connection_limit", 5)
    with served(models("binary")) as server:
        idle = [socket.create_connection(server.server_address) for _ in range(3)]
        with socket.create_connection(server.server_address, timeout=0.3) as late:
            late.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
            with pytest.raises(TimeoutError):
                late.recv(1)
            idle.pop().close()
            late.settimeout(10)
            assert late.recv(100).startswith(b"HTTP/1.0 200")
        for one in idle:
            one.close()


@pytest.mark.parametrize("text", [b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_what_is_no_http_is_refused(text, server):
    found = raw(server, text)
    assert b"Traceback" not in found
    assert b'{"error": ' in found or not found
    assert answer(server, "/health") == {"status": "ok"}


def test_a_fault_shows_nothing_of_the_machine(server, monkeypatch, capfd):
    def broken(*_, **__):
        raise KeyError("/secret/place")

    monkeypatch.setattr(server.routes.answers, "rows", broken)
    message = error(server, "/predict", ROW, 500)
    assert message.startswith("Unexpected KeyError")
    assert "secret" not in message
    assert "secret" not in "".join(capfd.readouterr())
    monkeypatch.setenv("MERCER_DEBUG", "1")
    assert error(server, "/predict", ROW, 500) == message
    assert "KeyError: '/secret/place'" in capfd.readouterr().err


@pytest.mark.parametrize("text", ["1_000", "\u0661\u0662", "inf", "0x10"])
def test_numbers_of_the_page_are_those_of_files(text, server):
    status, _, html = ask(server, f"/?{urlencode(TYPED | {'area': text})}")
    assert status == 400
    assert "&#39;area&#39; held numbers in training but now holds" in html.decode()


def test_large_whole_numbers_beside_others_are_read(server):
    rows = [ROW | {"area": area} for area in (2**60, 80.5)]
    found = answer(server, "/predict", {"rows": rows})["predictions"][1]["prediction"]
    alone = answer(server, "/predict", {"rows": rows[1:]})["predictions"][0]["prediction"]
    assert_allclose(found, alone, rtol=1e-6)
    large = [ask(server, "/predict", ROW | {"area": area}) for area in (10**19 - 1, 1e19)]
    assert large[0][0] == 200
    assert large[0][2] == large[1][2]


def test_bad_values_of_an_address_are_said_on_the_page(server):
    status, _, html = ask(server, "/?area=%3Cscript%3E")
    assert status == 400
    assert "&lt;script&gt;" in html.decode()
    assert "<script>" not in html.decode().replace("<script>\n", "")
    assert "twice" in error(server, "/?area=1&area=2")
    assert "UTF-8" in error(server, "/?area=%FF")
    many = "/?" + "&".join(["a"] * 10_000)
    assert "twice" in error(server, many)
    assert "too many values" in error(server, f"{many}&a")


# -- nothing is opened ----------------------------------------------------------------------------

_OPENED: list[str] = []
_HOOKED: list[bool] = []


def _watch(event, arguments):
    if event == "open" and "waitress" in threading.current_thread().name:
        _OPENED.append(str(arguments[0]))


def test_no_request_opens_a_file(models, folder, monkeypatch):
    if not _HOOKED:  # a hook stays for good
        sys.addaudithook(_watch)
        _HOOKED.append(True)
    bodies = {
        "csv": (folder / "homes.csv").read_bytes(),
        "parquet": (folder / "points.parquet").read_bytes(),
        "other": b'name\n"../../../etc/passwd"\n',
        "large": b"name\n" + b"x\n" * 2**20,
    }
    with served(models("homes"), report=b"x" * 2**21) as server:
        answer(server, "/predict", {"rows": [ROW], "interval": 0.9})  # what is imported but once
        ask(server, "/batch", bodies["csv"], "text/csv")
        ask(server, "/batch", bodies["parquet"], "text/csv")
        _OPENED.clear()
        answer(server, "/predict", {"rows": [ROW | {"town": "/etc/passwd"}], "interval": 0.9})
        for path in ("/", "/model", "/health", "/report", "/../x", "/?town=/etc/passwd&area=1"):
            ask(server, path)
        for body in bodies.values():
            ask(server, "/batch?keep=/etc/passwd", body, "text/csv")
            ask(server, "/batch", body, "application/octet-stream")
        assert _OPENED == []


# -- the command ----------------------------------------------------------------------------------


def test_the_command_says_where_it_is_and_ends_quietly(models, tmp_path):
    (tmp_path / "report.html").write_text("<p>What came of it")
    command = [sys.executable, "-c", "from mercer_app.cli import main; main()", "serve"]
    words = [str(models("binary")), "--port", "0", "--report", str(tmp_path / "report.html")]
    words += ["--interval", "0.8"]
    process = subprocess.Popen(
        [*command, *words],
        stderr=subprocess.PIPE,
        text=True,
        # Where tests run in the background of a script, Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        said = process.stderr.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", said)[1])
        (tmp_path / "report.html").unlink()  # it was read at the start
        there = SimpleNamespace(server_address=("127.0.0.1", port))
        assert answer(there, "/health") == {"status": "ok"}
        assert ask(there, "/report")[2] == b"<p>What came of it"
        assert b'data-address="/batch?interval=0.8"' in ask(there, "/")[2]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert process.stderr.read().strip() == ""
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_the_command_is_ended_as_by_ctrl_c(models, mercer, monkeypatch):
    def end(_):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(ModelServer, "serve_forever", end)
    code, _, err = mercer("serve", models("binary"), "--port", 0)
    assert code == 0
    assert re.search(r"http://127\.0\.0\.1:\d+/ \(Ctrl-C ends it\)\s*$", err)


def test_the_command_refuses_what_it_cannot_serve(models, tmp_path, mercer):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = mercer("serve", models("binary"), "--port", port)
    assert code == 2
    assert f"Port {port} of this machine is taken" in err
    for words, message in (
        (("--port", "70000"), "`--port` must be"),
        (("--report", tmp_path / "no.html"), "There is no report"),
        (("--interval", "90"), "Write 0.9 for 90 %"),
        (("--interval", "0.9999"), "needs at least 9,999 rows"),
    ):
        code, _, err = mercer("serve", models("binary"), *words)
        assert code == 2
        assert message in err
    code, _, err = mercer("serve", tmp_path / "no.mercer")
    assert code == 2
    assert "There is no model file" in err


# -- in a browser ---------------------------------------------------------------------------------

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look with")


def seen(url):
    """Return the page after its script, and what the console of the browser says."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    words = [CHROMIUM, *options, "--virtual-time-budget=3000", "--dump-dom", url]
    found = subprocess.run(words, capture_output=True, text=True, timeout=120)
    return found.stdout, [line for line in found.stderr.splitlines() if "CONSOLE" in line]


def add_script(monkeypatch, script):
    """Let the page run a script that it does not have."""
    plain = _page.page

    def page(*arguments, **options):
        return plain(*arguments, **options).replace("</html>", f"<script>{script}</script></html>")

    monkeypatch.setattr(_server, "page", page)
    monkeypatch.setattr(_server, "POLICY", "")


@in_browser
def test_a_link_shows_its_prediction_in_a_browser(server):
    html, complaints = seen(f"{server.address}?{urlencode(TYPED)}")
    price = answer(server, "/predict", ROW)["predictions"][0]["prediction"]
    assert f'<p class="answer">${price:,.0f}</p>' in html
    assert complaints == []  # nothing of the page is against its policy


# Windows of a browser are not as narrow as a telephone, but frames are.
_IN_A_FRAME = """
if (top === self) {
  const frame = document.createElement("iframe");
  frame.width = WIDTH;
  frame.frameBorder = 0;
  frame.srcdoc = document.documentElement.outerHTML;
  document.body.replaceChildren(frame);
} else {
  const ends = Array.from(
    document.querySelectorAll("body *"), (one) => Math.ceil(one.getBoundingClientRect().right)
  );
  const page = document.documentElement;
  parent.document.title = [innerWidth, page.scrollWidth, Math.max(...ends)].join(" ");
}
"""


@in_browser
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["homes", "classes"])
def test_nothing_is_wider_than_the_window(name, width, servers, monkeypatch):
    add_script(monkeypatch, _IN_A_FRAME.replace("WIDTH", str(width)))
    server = servers(name)
    query = TYPED | {"text": "word" * 200} if name == "homes" else {"a": 1, "b": 2}
    html, _ = seen(f"{server.address}?{urlencode(query)}")
    inner, scrolled, end = map(int, re.search(r"<title>(\d+) (\d+) (\d+)</title>", html).groups())
    assert inner == width
    assert scrolled <= width
    assert end <= width


@in_browser
def test_a_file_is_predicted_in_a_browser(server, folder, monkeypatch):
    text = json.dumps((folder / "homes.csv").read_text(encoding="utf-8"))
    add_script(
        monkeypatch,
        # A download that goes on may keep the browser from ending.
        "HTMLAnchorElement.prototype.click = () => {};"
        f"const files = new DataTransfer(); files.items.add(new File([{text}], 'new homes.csv'));"
        "const box = document.getElementById('file'); box.files = files.files;"
        "box.dispatchEvent(new Event('change'))",
    )
    html, _ = seen(server.address)
    assert "420 predictions" in html
    assert 'download="new homes-predictions.csv"' in html
    monkeypatch.setattr(_server, "MOST_BYTES", 1000)
    html, _ = seen(server.address)
    assert "has more than" in html


def test_help_imports_no_server():
    program = (
        "import sys; from mercer_app.cli import main\n"
        "names = 'waitress', 'mercer_app.serve', 'numpy', 'pyarrow'\n"
        "try: main(['--help'])\n"
        "except SystemExit: print([m for m in names if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize("how", ["stream command", "rows as dicts", "frame of numbers"])
def test_models_that_know_no_ranges_are_served_without_them(how, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((300, 2)).round(3)
    y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    if how == "stream command":
        lines = [f"{a},{b},{label}" for (a, b), label in zip(X, y, strict=True)]
        (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *lines, ""]))
        words = ["stream", tmp_path / "rows.csv", "--target", "y", "--out", tmp_path / "model"]
        assert run(*words) == 0
        model = load_model(tmp_path / "model")
    else:
        model = KernelClassifier(random_state=0)
        if how == "rows as dicts":
            for (a, b), label in zip(X, y, strict=True):
                model.learn_one({"a": a, "b": b}, label)
        else:
            model.fit(pd.DataFrame(X, columns=["a", "b"]), y)
        model.save(tmp_path / "model")
        model = load_model(tmp_path / "model")
    answers = Answers(model)
    assert [column.name for column in answers.columns] == ["a", "b"]
    for column in answers.columns:
        assert "minimum" not in column.described()
        assert 0.4 < column.described()["typical"] < 0.6
    told = answers.rows([{"a": 0.95, "b": 0.05}, {"a": 5.0, "b": 0.5}])
    assert told.predictions[0]["prediction"] == "yes"
    assert not told.notes
