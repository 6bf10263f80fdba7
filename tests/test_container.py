"""The model file: what was written comes back, and nothing else is ever accepted."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file

from mercer import model_file
from mercer.model_file import FORMAT_VERSION
from mercer.model_file import read_tensors as read
from mercer.model_file import write_tensors as write

DTYPES = [np.float32, np.float64, np.int64, np.uint8, np.bool_]
HEADER = {"kernel": {"type": "Gaussian", "params": {"length_scale": 0.1}}, "classes": ["a", "ß"]}
TENSORS = {"dictionary": np.arange(6.0).reshape(3, 2), "seen": np.array(7), "mask": np.eye(2) > 0}
TENSORS |= {"single": np.ones(1, np.float32), "bytes": np.array([255], np.uint8)}

numbers = st.floats(allow_nan=False, allow_infinity=False)
plain = st.none() | st.booleans() | st.integers() | numbers | st.text(max_size=5)
headers = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        plain,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
)
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(
        dtype,
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        elements={"allow_nan": False, "allow_infinity": False}
        if np.issubdtype(dtype, np.floating)
        else None,
    )
)
names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=6)


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert_array_equal(found[name], array, strict=True)
        assert found[name].tobytes() == array.tobytes()  # the sign of zero as well


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.mercer"
    write(path, HEADER, TENSORS)
    return path


def sealed(text, data=b""):
    """A file with any JSON text and a right digest, as a forger would make it."""
    content = bytearray(len(text).to_bytes(8, "little") + text + data)
    content[model_file._DIGEST] = b"0" * 64
    content[model_file._DIGEST] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


def sealed_json(envelope, listing=None, data=b""):
    metadata = {"sha256": "0" * 64, "mercer": envelope}
    listing = {"__metadata__": metadata, **(listing or {})}
    text = json.dumps(listing, separators=(",", ":")).encode()
    return sealed(text + b" " * (-len(text) % 8), data)


# Round trips


@settings(max_examples=80, deadline=None)
@given(header=headers, tensors=st.dictionaries(names, arrays, max_size=4))
def test_header_and_tensors_come_back_exactly(tmp_path_factory, header, tensors):
    path = tmp_path_factory.getbasetemp() / "round-trip.mercer"
    write(path, header, tensors)
    found_header, found = read(path)
    assert found_header == header
    assert json.dumps(found_header, sort_keys=True) == json.dumps(header, sort_keys=True)
    assert_same(found, tensors)


@pytest.mark.parametrize("number", [0.1, 1e-310, 5e-324, 1.7976931348623157e308, -0.0, 2**80])
def test_numbers_of_the_header_keep_every_bit(tmp_path, number):
    write(tmp_path / "m", {"x": number}, {})
    found = read(tmp_path / "m")[0]["x"]
    assert repr(found) == repr(number)


def test_any_reader_of_safetensors_reads_the_arrays(path):
    assert_same(load_file(path), TENSORS)


def test_layout_and_byte_order_of_an_array_do_not_matter(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    for variant in (np.asfortranarray(array), array.astype(">f8"), np.repeat(array, 2, 0)[::2]):
        write(tmp_path / "m", {}, {"x": variant})
        assert_same(read(tmp_path / "m")[1], {"x": array})


def test_loaded_arrays_are_writable_and_aligned(path):
    for array in read(path)[1].values():
        assert array.flags.writeable
        assert array.flags.owndata
        assert array.flags.aligned


def test_same_content_makes_the_same_bytes(tmp_path):
    for name, order in (("a", 1), ("b", -1)):
        write(
            tmp_path / name,
            dict(list(HEADER.items())[::order]),
            dict(list(TENSORS.items())[::order]),
        )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_json_text_and_each_array_begin_where_memory_can_be_mapped(tmp_path):
    for n in range(1, 9):
        arrays = {"a": np.ones(n, np.uint8), "b": np.ones(n), "c": np.ones(n, np.float32)}
        write(tmp_path / "m", {"x": "y" * n}, arrays)
        content = (tmp_path / "m").read_bytes()
        length = int.from_bytes(content[:8], "little")
        listing = json.loads(content[8 : 8 + length])
        assert length % 8 == 0
        assert len(listing.pop("__metadata__")["sha256"]) == 64
        for name, array in arrays.items():
            assert listing[name]["data_offsets"][0] % array.itemsize == 0


def test_no_file_is_left_beside_the_model(path):
    assert os.listdir(path.parent) == ["model.mercer"]


# Damage


def test_every_altered_byte_is_noticed(path):
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for position in range(len(content)):
        masks = {1, 0x20, 0x80, int(rng.integers(1, 256))}
        for mask in masks:
            damaged = bytearray(content)
            damaged[position] ^= mask
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match="altered"):
                read(path)


def test_every_truncation_is_noticed(path):
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"truncated|empty"):
            read(path)


@pytest.mark.parametrize("more", [b"\0", b" ", b"\n", b"x" * 1000])
def test_appended_bytes_are_noticed(path, more):
    path.write_bytes(path.read_bytes() + more)
    with pytest.raises(ValueError, match="truncated or altered"):
        read(path)


@pytest.mark.parametrize(
    "content", [b"\x80\x04K\x01.", b"{}", b"\0" * 500, b"\xff" * 500, b"PK\x03\x04" * 100]
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ValueError, match="not a model file of mercer"):
        read(tmp_path / "m")


def test_a_safetensors_file_of_somebody_else_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"x": np.ones(3)}, tmp_path / "m", metadata={"format": "np"})
    with pytest.raises(ValueError, match="not a model file of mercer"):
        read(tmp_path / "m")


def test_an_empty_file_a_folder_and_no_file_are_told_apart(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="it is empty"):
        read(tmp_path / "empty")
    with pytest.raises(ValueError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ("0.12.3", "mercer to 0.12.3 or later"),
        ("\x1b[2J", "mercer to load"),
        (7.5, "mercer to 7.5 or later"),
    ],
)
def test_a_newer_format_is_refused_with_the_release_that_reads_it(needs, said, tmp_path):
    envelope = {"format": FORMAT_VERSION + 1, "needs": needs, "header": []}
    (tmp_path / "m").write_bytes(sealed_json(json.dumps(envelope)))
    with pytest.raises(ValueError, match=f"formats up to 1. Upgrade {said}"):
        read(tmp_path / "m")


def test_a_newer_format_is_refused_by_its_number(path, monkeypatch):
    monkeypatch.setattr(model_file, "FORMAT_VERSION", FORMAT_VERSION + 1)
    write(path, HEADER, TENSORS)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"newer mercer \(format 2\).*Upgrade"):
        read(path)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")  # the digest speaks first
    with pytest.raises(ValueError, match="truncated or altered"):
        read(path)


X = {"x": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}
GOOD = json.dumps({"format": 1, "header": {}})


def test_the_forgers_tool_of_these_tests_makes_valid_files(tmp_path):
    (tmp_path / "m").write_bytes(sealed_json(GOOD, X, np.ones(1).tobytes()))
    assert_same(read(tmp_path / "m")[1], {"x": np.ones(1)})


@pytest.mark.parametrize(
    "content",
    [
        sealed(model_file._OPENING + b"0" * 64 + b'"}'),
        sealed(model_file._OPENING + b"0" * 64 + b'","mercer":' + b"[" * 100_000),
        sealed_json(json.dumps({"header": {}})),
        sealed_json(json.dumps({"format": 0, "header": {}})),
        sealed_json(json.dumps({"format": True, "header": {}})),
        sealed_json(json.dumps({"format": "1", "header": {}})),
        sealed_json(json.dumps({"format": 1, "header": [1]})),
        sealed_json("[]"),
        sealed_json("not JSON"),
        sealed_json(7),
        sealed_json('{"format": 1, "header": {"x": NaN}}'),
        sealed_json('{"format": 1, "header": {"x": -Infinity}}'),
        sealed_json('{"format": 1, "header": {"x": 1e999}}'),
        sealed_json('{"format": 1, "header": ' + "[" * 100_000),
        sealed_json(GOOD, X),
        sealed_json(GOOD, X, b"\0" * 9),
        sealed_json(GOOD, {"x": 3}),
        sealed_json(GOOD, {"x": {**X["x"], "shape": [-1]}}, b"\0" * 8),
        sealed_json(GOOD, {"x": {**X["x"], "shape": [2**62, 4]}}, b"\0" * 8),
        sealed_json(GOOD, {"x": {**X["x"], "data_offsets": [0, 2**40]}}, b"\0" * 8),
        sealed_json(GOOD, {"x": {**X["x"], "dtype": ["F64"]}}, b"\0" * 8),
        sealed_json(GOOD, {"x": {**X["x"], "dtype": "U64"}}, b"\0" * 8),
        sealed_json(GOOD, {"x": {**X["x"], "dtype": "BF16", "shape": [4]}}, b"\0" * 8),
        sealed_json(GOOD, {"x": {**X["x"], "dtype": "BOOL", "shape": [8]}}, b"\0\2" * 4),
        sealed_json(GOOD, X, np.array([np.nan]).tobytes()),
        sealed_json(GOOD, X, np.array([-np.inf]).tobytes()),
    ],
)
def test_forged_content_with_a_right_digest_is_refused(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ValueError, match="not a valid model file"):
        read(tmp_path / "m")


# What cannot be stored


@pytest.mark.parametrize(
    "header",
    [
        {"x": float("nan")},
        {"x": [float("inf")]},
        {"x": (1, 2)},
        {1: 2},
        {"x": {1: 2, "a": 3}},
        {"x": np.ones(2)},
        {"x": np.int64(1)},
        {"x": {1, 2}},
        {"x": b"bytes"},
        {"x": print},
    ],
    ids=str,
)
def test_headers_that_json_cannot_hold_exactly_are_refused(tmp_path, header):
    with pytest.raises(ValueError, match="cannot be stored as JSON"):
        write(tmp_path / "m", header, {})
    assert os.listdir(tmp_path) == []


def test_headers_that_are_nested_too_deeply_are_refused(tmp_path):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="cannot be stored as JSON"):
        write(tmp_path / "m", {"x": deep}, {})


@pytest.mark.parametrize(
    ("name", "array", "match"),
    [
        ("x", np.array([1.0, np.nan]), "NaN or infinity"),
        ("x", np.array([np.inf], np.float32), "NaN or infinity"),
        ("x", np.ones(2, np.float16), "dtype float16; .* Convert"),
        ("x", np.ones(2, np.int32), "dtype int32; .* Convert"),
        ("x", np.array(["a"]), "Convert"),
        ("x", np.array([{}]), "dtype object"),
        ("", np.ones(2), "printable ASCII"),
        ("ß", np.ones(2), "printable ASCII"),
        ("a\n", np.ones(2), "printable ASCII"),
        (3, np.ones(2), "printable ASCII"),
        ("__metadata__", np.ones(2), "keeps for itself"),
    ],
)
def test_arrays_that_the_file_does_not_hold_are_refused(tmp_path, name, array, match):
    with pytest.raises(ValueError, match=match):
        write(tmp_path / "m", {}, {name: array})
    assert os.listdir(tmp_path) == []


def test_a_header_too_long_for_readers_of_safetensors_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "_LONGEST_HEADER", 1000)
    with pytest.raises(ValueError, match="Store long lists of numbers as tensors"):
        write(tmp_path / "m", {"x": [0.5] * 1000}, {})
    write(tmp_path / "m", {}, {"x" * 500: np.ones(1)})
    length = int.from_bytes((tmp_path / "m").read_bytes()[:8], "little")
    monkeypatch.setattr(model_file, "_LONGEST_HEADER", length)
    write(tmp_path / "m", {}, {"x" * 500: np.ones(1)})


# Crashes


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_failure_at_any_step_keeps_the_old_file_and_no_other(path, monkeypatch, step, error):
    def fail(*_args, **_kwargs):
        raise error

    if step == "open":
        monkeypatch.setattr(model_file, "open", fail, raising=False)
    else:
        monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)) as caught:
        write(path, {"new": True}, {})
    monkeypatch.undo()
    if isinstance(error, OSError):
        assert caught.value.errno == errno.ENOSPC
        assert "could not be written (No space left)" in str(caught.value)
        assert caught.value.filename == str(path)
    assert read(path)[0] == HEADER
    assert os.listdir(path.parent) == ["model.mercer"]


def test_unwritable_places_are_refused_with_the_reason(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    for place in (tmp_path / "file" / "m", tmp_path / "missing" / "m", tmp_path):
        with pytest.raises(OSError, match=r"could not be written .* Check that its folder exists"):
            write(place, HEADER, TENSORS)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser writes everywhere"
)
def test_a_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="could not be written"):
        write(tmp_path / "m", HEADER, TENSORS)


@pytest.mark.skipif(os.name != "posix", reason="links and modes of POSIX")
def test_links_and_permissions_of_the_old_file_stay(path):
    path.chmod(0o600)
    link = path.with_name("link")
    link.symlink_to(path)
    write(link, {"new": True}, {})
    assert link.is_symlink()
    assert read(path)[0] == {"new": True}
    assert path.stat().st_mode & 0o777 == 0o600


WRITER = """
import importlib.util, sys, numpy as np
spec = importlib.util.spec_from_file_location("container", sys.argv[1])
container = importlib.util.module_from_spec(spec)
spec.loader.exec_module(container)
big = np.arange(100_000.0)
count = 0
while True:
    count += 1
    tensors = {"x": big[: 1000 + count % 99_000] + count}
    container.write_tensors(sys.argv[2], {"count": count}, tensors)
    print(count, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_a_killed_writer_leaves_a_whole_file(path):
    rng = np.random.default_rng(0)
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, model_file.__file__, str(path)], stdout=subprocess.PIPE
        )
        with process:
            assert process.stdout.readline() == b"1\n"
            time.sleep(rng.uniform(0, 0.03))
            process.send_signal(signal.SIGKILL)
            reported = max([1, *map(int, process.stdout.read().split())])
        header, tensors = read(path)
        # The last write reported, or the one after it, complete.
        assert header["count"] in (reported, reported + 1)
        expected = np.arange(1000 + header["count"] % 99_000) + header["count"]
        assert_array_equal(tensors["x"], expected)
    # What the killed ones had begun is gone with the next that is written.
    write(path, {}, {})
    assert os.listdir(path.parent) == ["model.mercer"]


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_two_that_write_one_file_do_not_meet(path):
    with model_file.replacing(path) as first, model_file.replacing(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # which ended last
    assert os.listdir(path.parent) == ["model.mercer"]


LEAVER = """
import os, pathlib, signal, sys
from mercer.model_file import unfinished_folder
with unfinished_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "left").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_a_folder_of_a_killed_writer_is_taken_by_the_next(tmp_path):
    place = tmp_path / "parts"
    subprocess.run([sys.executable, "-c", LEAVER, str(place)], check=False)
    (left,) = tmp_path.iterdir()
    (tmp_path / "other").mkdir()
    with model_file.unfinished_folder(place) as first:
        assert first == left
        assert not list(first.iterdir())
        (first / "first").touch()
        with model_file.unfinished_folder(place) as second:
            assert second != first
        subprocess.run([sys.executable, "-c", LEAVER, str(place)], check=False)
        with model_file.unfinished_folder(place) as again:
            assert again == second  # what is left of a second writer is taken, too
            assert not list(again.iterdir())
        first.rename(place)
        with model_file.unfinished_folder(place) as third:  # where the first one was
            assert third == first
    third.symlink_to(tmp_path / "other")
    with model_file.unfinished_folder(place) as fourth:  # which is not followed
        assert fourth.parent == tmp_path
        assert fourth != third
    third.unlink()
    assert sorted(os.listdir(tmp_path)) == ["other", "parts"]
    assert os.listdir(place) == ["first"]


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_links_in_the_place_of_the_unfinished_file_are_not_followed(path):
    with model_file.replacing(path) as place:
        place.touch()
    other = path.with_name("other")
    other.write_text("not ours")
    for link in (place.symlink_to, place.hardlink_to):
        link(other)
        write(path, {"new": True}, {})
        assert other.read_text() == "not ours"
        place.unlink()


@pytest.fixture
def place(path):
    """Where the unfinished file of the model is: the next writer takes what a killed one left."""
    with model_file.replacing(path) as place:
        place.touch()
    return place


@pytest.fixture
def lowest_descriptor():
    """A function for the lowest free number of an open file, which tells of files left open."""

    def lowest():
        found = os.dup(0)
        os.close(found)
        return found

    return lowest


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_what_a_killed_writer_left_is_taken_again(path, place, lowest_descriptor):
    before = lowest_descriptor()
    for is_left in (True, False):
        if is_left:
            place.write_text("a half")
        with model_file.replacing(path) as again:
            assert again == place
            assert place.stat().st_size == 6 * is_left
            again.write_text("a whole")
        assert path.read_text() == "a whole"
        assert os.listdir(path.parent) == ["model.mercer"]
    assert lowest_descriptor() == before


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_what_killed_writers_left_is_removed_and_nothing_else(path, place, lowest_descriptor):
    before = lowest_descriptor()
    folder = path.parent
    place.write_text("left")
    (folder / ".mercer-folder.tmp").mkdir()
    with model_file.replacing(folder / "another") as live:
        live.touch()
        model_file.remove_left(folder)
        assert sorted(folder.iterdir()) == sorted([path, live, folder / ".mercer-folder.tmp"])
        live.write_text("whole")
    assert (folder / "another").read_text() == "whole"
    assert lowest_descriptor() == before


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_where_no_file_can_be_locked_nothing_is_left(tmp_path, lowest_descriptor, monkeypatch):
    import fcntl

    def refused(descriptor, flags):
        raise OSError(errno.ENOLCK, "No locks available")

    before = lowest_descriptor()
    monkeypatch.setattr(fcntl, "flock", refused)
    write(tmp_path / "m", {"new": True}, {})
    with model_file.unfinished_folder(tmp_path / "parts") as folder:
        (folder / "part").touch()
    assert read(tmp_path / "m")[0] == {"new": True}
    assert os.listdir(tmp_path) == ["m"]
    assert lowest_descriptor() == before


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "other").touch()
    write(tmp_path / "m", {}, {})
    assert (tmp_path / "m").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
@pytest.mark.parametrize("follower", [False, True])
def test_a_file_that_was_finished_before_it_was_locked_is_not_taken(
    path, place, lowest_descriptor, monkeypatch, follower
):
    import fcntl

    def late(descriptor, flags):
        os.replace(place, path)
        if follower:
            place.touch()

    before = lowest_descriptor()
    monkeypatch.setattr(fcntl, "flock", late)
    with model_file.replacing(path) as other:
        assert other != place
        other.write_text("mine")
    assert path.read_text() == "mine"
    assert lowest_descriptor() == before


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_who_is_interrupted_while_the_file_is_locked_writes_nothing(
    path, lowest_descriptor, monkeypatch
):
    import fcntl

    def interrupted(descriptor, flags):
        raise KeyboardInterrupt

    before = lowest_descriptor()
    monkeypatch.setattr(fcntl, "flock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(path, {"new": True}, {})
    assert read(path)[0] == HEADER
    assert lowest_descriptor() == before


def test_a_folder_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(IsADirectoryError), model_file.replacing(tmp_path):
        pytest.fail("it is being written")


def test_systems_without_locks_or_folders_to_open_write_files_too(path, place, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.delattr(os, "O_DIRECTORY", raising=False)
    names = set()
    for _ in range(2):
        with model_file.replacing(path) as other:
            other.touch()
            names.add(other)
    assert len(names | {place}) == 3
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write(path, {"new": True}, {})
    assert len(synced) == 1
    assert read(path)[0] == {"new": True}


@pytest.mark.skipif(os.name != "posix", reason="folders of POSIX")
@pytest.mark.parametrize("reason", [errno.EINVAL, errno.EIO])
def test_the_new_name_is_made_to_last_where_the_system_can(
    path, monkeypatch, lowest_descriptor, reason
):
    synced = []

    def fsync(descriptor):
        synced.append(os.path.isdir(f"/proc/self/fd/{descriptor}"))
        if len(synced) == 2:
            raise OSError(reason, "as some file systems say")

    before = lowest_descriptor()
    monkeypatch.setattr(os, "fsync", fsync)
    if reason == errno.EINVAL:
        write(path, {"new": True}, {})
    else:
        with pytest.raises(OSError, match="could not be written") as caught:
            write(path, {"new": True}, {})
        assert caught.value.errno == reason
    assert synced == [False, os.path.isdir("/proc/self/fd")]
    assert read(path)[0] == {"new": True}
    assert lowest_descriptor() == before


def test_an_error_without_a_number_is_told_by_its_words(path, monkeypatch):
    def fail(*_args, **_kwargs):
        raise OSError("the tape is torn")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match=r"could not be written \(the tape is torn\)") as caught:
        write(path, {}, {})
    assert caught.value.errno == errno.EIO
