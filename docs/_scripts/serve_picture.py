"""Draw docs/images/serve.png, the page of ``mercer serve`` with a flower between two kinds.

Run ``python docs/_scripts/serve_picture.py`` after changing the page; it needs chromium.
"""

import csv
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from sklearn.datasets import load_iris

from mercer import load_model
from mercer_app.serve import Answers, ModelServer

TARGET = Path(__file__).parent.parent / "images" / "serve.png"
FLOWER = {"sepal length": 6.0, "sepal width": 2.9, "petal length": 4.9, "petal width": 1.7}
SIZE = 1100, 1000


def write_flowers(path: Path) -> None:
    """Write the irises as a table."""
    iris = load_iris()
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*FLOWER, "species"])
        for row, kind in zip(iris.data.tolist(), iris.target, strict=True):
            rows.writerow([*row, iris.target_names[kind]])


def photograph(address: str, path: Path) -> None:
    """Let a browser draw a page."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("There is no chromium here, which draws the page.")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    size = f"--window-size={SIZE[0]},{SIZE[1]}"
    subprocess.run(
        [browser, *options, size, f"--screenshot={path}", address],
        check=True,
        capture_output=True,
        timeout=120,
    )


def main() -> None:
    """Train, serve, and write the picture in few colours."""
    with tempfile.TemporaryDirectory() as folder:
        table, model = Path(folder, "iris.csv"), Path(folder, "iris.mercer")
        write_flowers(table)
        words = ["fit", str(table), "--target", "species", "--out", str(model), "--quiet"]
        subprocess.run([sys.executable, "-m", "mercer", *words], check=True)
        with ModelServer(Answers(load_model(model)), title="iris", port=0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            photograph(f"{server.address}?{urlencode(FLOWER)}", Path(folder, "page.png"))
        picture = Image.open(Path(folder, "page.png")).convert("RGB")
        picture.quantize(48, dither=Image.Dither.NONE).save(TARGET, optimize=True)
        sys.stdout.write(f"{TARGET}: {TARGET.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
