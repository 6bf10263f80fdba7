"""Machine code on disk: where it is kept, what it is named after, who may read and write it."""

import gc
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from numba.core.errors import TypingError

import mercer
from mercer import jit as _jit

ROOT = Path(mercer.__file__).parent
FIT = """
    import numpy as np
    from mercer.numerics.small_dense import cholesky
    factor, fine = cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    assert fine and factor.tolist() == [[2.0, 0.0], [1.0, 2.0]]
    print(int(sum(cholesky.stats.cache_hits.values())))
"""


def python(program, folder=None, **environment):
    """Run a program in a process of its own; return its words, and what it complained of."""
    kept = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    if folder is not None:
        kept["NUMBA_CACHE_DIR"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**kept, "PYTHONPATH": str(ROOT.parent), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split(), done.stderr


def kept(folder):
    return sorted(path.name for path in Path(folder).rglob("*.code"))


def plus_one(x):
    return x + 1.0


def is_read(options=None):
    """Call a function that is compiled or read; whether it was read."""
    function = _jit.jit(**(options or {}))(plus_one)
    assert function(1.0) == 2.0
    return bool(sum(function.stats.cache_hits.values()))


def test_code_is_kept_and_read_again_unless_it_was_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(_jit, "cache_folders", lambda: [tmp_path])
    assert not is_read()
    assert is_read()
    assert not is_read({"error_model": "numpy"})
    (file, _) = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    file.write_bytes(file.read_bytes()[:1000])
    assert not is_read()
    assert is_read()


def test_what_a_killed_process_left_is_removed_later(tmp_path):
    old, new = tmp_path / "part-old", tmp_path / "part-new"
    for part in (old, new):
        part.write_bytes(b"begun")
    os.utime(old, (0, 0))
    (tmp_path / "part-of another").mkdir()  # what cannot be removed disturbs nobody
    os.utime(tmp_path / "part-of another", (0, 0))
    assert _jit._written(tmp_path, "whole", b"code")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("part-new", "part-of another", "whole")
    ]


def test_processes_fill_one_folder_at_the_same_time(tmp_path):
    """Numba numbers the files: of two types of numbers begun together one may get the other's."""
    program = """
        import sys
        import numpy as np
        from mercer.numerics.small_dense import dot
        for dtype in sys.argv[1].split(","):
            assert dot(np.arange(4, dtype=dtype), np.ones(4, dtype)) == 6.0
    """
    types = ["f4,f8", "f8,f4"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT.parent)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    begun = [subprocess.Popen([*command, t], env=environment) for t in types]
    assert [process.wait() for process in begun] == [0, 0]
    assert len(kept(tmp_path)) == 2
    assert not list(tmp_path.rglob("part-*"))
    subprocess.run([*command, "f4,f8"], env=environment, check=True)


def blocked(tmp_path, name):
    """Path below a file: a folder that not even the superuser can make or write to."""
    file = tmp_path / name
    file.touch()
    return file / "below"


def test_without_a_home_the_temporary_folder_is_used(tmp_path):
    """Numba's own cache raises at import here: no locator available for file."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    nowhere = str(blocked(tmp_path, "file"))
    environment = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "TMPDIR": str(temporary)}
    read_only = f"""
        from pathlib import Path
        from mercer import jit as _jit
        _jit._folders.cache_clear()
        _jit._PACKAGE_FOLDER = Path({nowhere!r})
    """
    program = textwrap.dedent(read_only) + textwrap.dedent(FIT)
    assert python(program, **environment) == (["0"], "")
    (folder,) = temporary.glob("mercer-compiled-*")
    assert folder.stat().st_mode & 0o077 == 0
    assert python(program, **environment) == (["1"], "")


def test_where_nothing_can_be_kept_all_works_and_says_what_it_costs(tmp_path):
    nowhere = str(blocked(tmp_path, "file"))
    program = f"""
        from mercer import jit as _jit
        from pathlib import Path
        _jit.cache_folders = lambda: [Path({nowhere!r})]
    """
    words, complaint = python(textwrap.dedent(program) + textwrap.dedent(FIT))
    assert words == ["0"]
    assert complaint.count("cannot be kept") == 1
    assert "NUMBA_CACHE_DIR" in complaint


def test_code_that_was_compiled_by_another_user_is_read(tmp_path, monkeypatch):
    """An image is filled as root, and run by a user who cannot write there."""
    full, own = tmp_path / "full", tmp_path / "own"
    monkeypatch.setattr(_jit, "cache_folders", lambda: [full])
    assert not is_read()
    monkeypatch.setattr(_jit, "cache_folders", lambda: [blocked(tmp_path, "file"), full, own])
    assert is_read()
    assert not own.exists()
    assert not is_read({"error_model": "numpy"})
    assert len(kept(own)) == 0
    assert len(kept(full)) == 2


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="POSIX only")
def test_a_folder_that_others_may_write_to_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(_jit, "cache_folders", lambda: [tmp_path / "open", tmp_path / "own"])
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "elsewhere").mkdir()
    assert not is_read()
    assert not kept(tmp_path / "open")
    assert len(kept(tmp_path / "own")) == 1
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(_jit, "cache_folders", lambda: [tmp_path / "link", tmp_path / "own"])
    assert is_read()
    assert not kept(tmp_path / "elsewhere")


def test_a_change_of_a_called_function_changes_the_name(tmp_path, monkeypatch):
    """Numba sees the file of the caller only; beside a new callee it would run the old one."""
    names = []
    for text in ("a = 1\n", "a = 2\n"):
        root = tmp_path / text.strip().replace(" ", "")
        for pattern in _jit._CALLED:
            (root / pattern).parent.mkdir(parents=True, exist_ok=True)
        for name in ("jit.py", "pointers.py", "kernels/caller.py"):
            (root / name).touch()
        (root / "numerics" / "callee.py").write_text(text)
        monkeypatch.setattr(_jit, "_ROOT", root)
        _jit._digest_of_called.cache_clear()
        names.append(_jit._stamp(str(root / "kernels" / "caller.py")))
    _jit._digest_of_called.cache_clear()
    assert names[0] != names[1]
    assert all(names)


def test_compiled_functions_lie_where_their_names_look():
    """Whoever calls compiled functions of other files finds them in the files of the digest."""
    callers = {
        path.relative_to(ROOT)
        for path in ROOT.rglob("*.py")
        if re.search(r"from mercer.jit import .*\bjit\b", path.read_text())
    }
    inside = {path.relative_to(ROOT) for files in _jit._CALLED for path in ROOT.glob(files)}
    assert {str(path) for path in callers - inside} == {
        "estimators/one_row.py",
        "streams/drift.py",
        "streams/experts.py",
        "streams/ways.py",
    }


def test_a_line_says_why_it_takes_so_long(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_jit, "cache_folders", lambda: [tmp_path])
    monkeypatch.setattr(_jit._State, "seconds", 0.0)
    monkeypatch.setattr(_jit._State, "explained", False)
    monkeypatch.setattr(_jit, "_NOTICEABLE", 0.0)
    for model in ("numpy", "python", "numpy", "python"):
        is_read({"error_model": model})
    assert [record.message.count("only the first time") for record in caplog.records] == [1]


def test_garbage_is_looked_for_less_often_only_while_something_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(_jit, "cache_folders", lambda: [tmp_path])
    usual, seen = gc.get_threshold(), []
    monkeypatch.setattr(_jit._Cache, "save_overload", lambda *_: seen.append(gc.get_threshold()))

    def inner(x):
        return x + 1.0

    inner = _jit.jit()(inner)

    def outer(x):
        return inner(x).nothing  # so it cannot be compiled

    with pytest.raises(TypingError, match="nothing"):
        _jit.jit()(outer)(1.0)
    assert seen == [(_jit._OBJECTS, *usual[1:])]
    assert gc.get_threshold() == usual
    gc.set_threshold(0)  # whoever switched it off keeps it so
    try:
        assert _jit.jit()(plus_one)(1.0) == 2.0
        assert [threshold[0] for threshold in seen] == [_jit._OBJECTS, 0]
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*usual)
