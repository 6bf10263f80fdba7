"""Draw docs/images/report.png, the top of the report of ``mercer demo``.

Run ``python docs/_scripts/report_picture.py`` after changing reports. It needs chromium.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from mercer_app.cli import main

TARGET = Path(__file__).parent.parent / "images" / "report.png"
WIDTH, HEIGHT = 900, 760


def draw():
    """Write the report, and take a picture of its top."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("This picture is taken by chromium, which is not installed.")
    with tempfile.TemporaryDirectory() as folder:
        try:
            main(["demo", "--out", folder])
        except SystemExit as ended:
            if ended.code:
                raise
        page = Path(folder, "report.html").as_uri()
        size = f"--window-size={WIDTH},{HEIGHT}"
        shot = f"--screenshot={TARGET}"
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        subprocess.run([browser, *words, size, shot, page], check=True, capture_output=True)


if __name__ == "__main__":
    draw()
