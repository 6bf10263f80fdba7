"""Model files as strangers may make them: altered, with a right seal, read and used.

*Files.* They begin as a model of each learner. One to three things in them are then altered:
numbers, text, keys and branches of the header, shapes, dtypes and values of arrays, what the header
says of arrays, bits, bytes, cuts and splices. The seal is made anew each time, so that it is never
what refuses a file.

*The promise.* Such a file is refused by ValueError, or it is a model. Then each call gives finite
numbers or a ValueError, also after the model has learned more; or a DivergenceError where numbers
of a file let a step explode. Nothing takes more than a second or 100 MB.

To run it:

    python reliability/files.py                      # long: 1,000,000 headers, 100,000 models
    python reliability/files.py --short              # seconds to minutes
    python reliability/files.py --case 1234          # one case, with what it says
"""

from __future__ import annotations

import copy
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import _rig  # one thread, before numpy reads the variables
import numpy as np

from mercer import load_model, model_file
from mercer.exceptions import DivergenceError

GOLDEN = _rig.ROOT / "tests" / "golden"
MEMORY = 100 * 2**20
LONGEST_S = 1.0
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "U8": "|u1", "BOOL": "|b1"}
ODD = (
    *(
        0,
        1,
        -1,
        2,
        3,
        7,
        255,
        256,
        10_000,
        2**31 - 1,
        2**31,
        2**53,
        2**63,
        -(2**63),
        10**30,
        10**400,
    ),
    *(0.0, -0.0, 0.5, -0.5, 1.5, 5e-324, 1e-300, 1e-160, 1e160, 1e300, -1e300, 1.7e308),
    *(None, True, False, "", "x", "\u0000", "é" * 50, "a" * 5000, "auto", "float32", "nan"),
    *([], [0], [[]], {}, {"tensor": "x"}, [None, 1e300]),
)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e-160, 1e-30, 1e30, 1e160, 1e300, -1e300, 1.7e308)
NOT_NUMBERS = (np.nan, np.inf, -np.inf)
INTEGERS = (0, 1, -1, 2, 255, 2**31 - 1, 2**31, 2**53, 2**63 - 1, -(2**63))


# -- files ----------------------------------------------------------------------------------------


def sealed(text: bytes, data: bytes) -> bytes:
    """A file with any header and a right seal."""
    content = bytearray(len(text).to_bytes(8, "little") + text + data)
    return resealed(content)


def resealed(content: bytearray) -> bytes:
    """The bytes with a right seal, if there is room for one."""
    place = model_file._DIGEST
    if len(content) >= place.stop:
        content[place] = b"0" * 64
        content[place] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


class File:
    """What a model file says, in pieces that may be altered."""

    def __init__(self, content: bytes) -> None:
        length = int.from_bytes(content[:8], "little")
        self.listing = json.loads(content[8 : 8 + length])
        self.envelope = json.loads(self.listing.pop("__metadata__")["mercer"])
        data = content[8 + length :]
        self.arrays = {
            name: np.frombuffer(data[slice(*entry["data_offsets"])], DTYPES[entry["dtype"]])
            .reshape(entry["shape"])
            .copy()
            for name, entry in self.listing.items()
        }

    def content(self, alter_listing: Callable[[dict[str, Any]], None] | None = None) -> bytes:
        """The file, with a right seal."""
        listing, data = {}, b""
        kinds = {np.dtype(code): kind for kind, code in DTYPES.items()}
        for name, array in self.arrays.items():
            piece = array.tobytes()
            listing[name] = {
                "dtype": kinds[array.dtype],
                "shape": list(array.shape),
                "data_offsets": [len(data), len(data) + len(piece)],
            }
            data += piece
        if alter_listing:
            alter_listing(listing)
        metadata = {"sha256": "0" * 64, "mercer": json.dumps(self.envelope)}
        text = json.dumps({"__metadata__": metadata, **listing}, separators=(",", ":")).encode()
        return sealed(text + b" " * (-len(text) % 8), data)


@cache
def golden() -> Any:
    """The script that made the files of the tests: rows to ask, and to learn on."""
    spec = spec_from_file_location("golden_write", GOLDEN / "write.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def files() -> dict[str, bytes]:
    """Model files to begin with, by the name of their learner."""
    return {path.stem: path.read_bytes() for path in sorted(GOLDEN.glob("*.mercer"))}


# -- alterations ----------------------------------------------------------------------------------

Random = np.random.Generator


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """All places of a tree of JSON: a dict or list, and a key."""
    keys = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(keys):
        yield tree, key
        if isinstance(value, dict | list):
            yield from places(value)


def place_of(rng: Random, tree: Any) -> tuple[Any, Any]:
    """One of the places of a tree."""
    found = list(places(tree))
    return found[rng.integers(len(found))]


def other(rng: Random) -> File:
    """Another file to take something from."""
    contents = list(files().values())
    return File(contents[rng.integers(len(contents))])


def put_oddity(rng: Random, file: File) -> None:
    tree, key = place_of(rng, file.envelope["header"])
    tree[key] = copy.deepcopy(ODD[rng.integers(len(ODD))])


def nudge_number(rng: Random, file: File) -> None:
    found = [
        (tree, key)
        for tree, key in places(file.envelope["header"])
        if isinstance(tree[key], int | float)
    ]
    if not found:
        return
    tree, key = found[rng.integers(len(found))]
    change = (lambda x: x + 1, lambda x: x - 1, lambda x: -x, lambda x: x * 1e3, lambda x: x / 7)
    tree[key] = change[rng.integers(len(change))](tree[key])


def drop_key(rng: Random, file: File) -> None:
    tree, key = place_of(rng, file.envelope["header"])
    del tree[key]


def add_key(rng: Random, file: File) -> None:
    tree, key = place_of(rng, file.envelope["header"])
    value = copy.deepcopy(ODD[rng.integers(len(ODD))])
    if isinstance(tree, dict):
        tree[str(key) + "_"] = value
    else:
        tree.insert(key, value)


def swap_values(rng: Random, file: File) -> None:
    (first, a), (second, b) = (place_of(rng, file.envelope["header"]) for _ in range(2))
    mine, its = copy.deepcopy(first[a]), copy.deepcopy(second[b])
    first[a], second[b] = its, mine


def splice_branch(rng: Random, file: File) -> None:
    tree, key = place_of(rng, file.envelope["header"])
    donor = other(rng)
    its, there = place_of(rng, donor.envelope["header"])
    tree[key] = its[there]
    for name, array in donor.arrays.items():
        file.arrays.setdefault(name, array)


def same_key_of_another(rng: Random, file: File) -> None:
    """Put what another model has under a key of the same name."""
    donor = other(rng)
    theirs = {key: tree[key] for tree, key in places(donor.envelope["header"])}
    both = [(t, key) for t, key in places(file.envelope["header"]) if key in theirs]
    tree, key = both[rng.integers(len(both))]
    tree[key] = theirs[key]


def deepen(rng: Random, file: File) -> None:
    tree, key = place_of(rng, file.envelope["header"])
    value: Any = tree[key]
    for _ in range(int(rng.choice([10, 300]))):
        value = [value] if rng.random() < 0.5 else {"tensor": value}
    tree[key] = value


def lengthen(rng: Random, file: File) -> None:
    tree, key = place_of(rng, file.envelope["header"])
    size, text = int(rng.choice([100, 10_000, 100_000])), json.dumps(tree[key])
    if len(text) * size < 2**20 and rng.random() < 0.5:  # copies: else what alters one alters all
        tree[key] = json.loads(f"[{','.join([text] * size)}]")
    else:
        tree[key] = "a" * size


def version(rng: Random, file: File) -> None:
    file.envelope["format"] = copy.deepcopy(ODD[rng.integers(len(ODD))])


def array_of(rng: Random, file: File) -> str:
    names = sorted(file.arrays)
    return names[rng.integers(len(names))] if names else ""


def put_values(rng: Random, file: File) -> None:
    name = array_of(rng, file)
    if name and file.arrays[name].size:
        flat = file.arrays[name].reshape(-1)
        values = NUMBERS if flat.dtype.kind == "f" else INTEGERS
        if flat.dtype.kind == "f" and rng.random() < 0.05:
            values = NOT_NUMBERS
        at = slice(None) if rng.random() < 0.2 else rng.integers(flat.size, size=rng.integers(1, 4))
        with np.errstate(all="ignore"):
            flat[at] = np.asarray(values[rng.integers(len(values))]).astype(flat.dtype)


def scale_values(rng: Random, file: File) -> None:
    name = array_of(rng, file)
    if name and file.arrays[name].dtype.kind == "f":
        with np.errstate(all="ignore"):
            file.arrays[name] *= rng.choice([-1.0, 0.0, 1e-160, 1e160, 1e300])


def permute(rng: Random, file: File) -> None:
    name = array_of(rng, file)
    if name:
        file.arrays[name] = rng.permuted(file.arrays[name])


def reshape(rng: Random, file: File) -> None:
    name = array_of(rng, file)
    if not name:
        return
    array = file.arrays[name]
    ways = [
        lambda a: a.reshape(-1),
        lambda a: a.T.copy(),
        lambda a: a[np.newaxis],
        lambda a: a[:0] if a.ndim else a[np.newaxis][:0],
        lambda a: a[:-1] if a.ndim else a,
        lambda a: np.concatenate([a, a]) if a.ndim else a,
        lambda a: np.zeros((0, 2**40), a.dtype),
        lambda a: np.hstack([a, a]) if a.ndim else a,
    ]
    file.arrays[name] = ways[rng.integers(len(ways))](array)


def cast(rng: Random, file: File) -> None:
    name = array_of(rng, file)
    if name:
        codes = list(DTYPES.values())
        with np.errstate(all="ignore"):
            file.arrays[name] = file.arrays[name].astype(codes[rng.integers(len(codes))])


def swap_arrays(rng: Random, file: File) -> None:
    a, b = array_of(rng, file), array_of(rng, file)
    if a:
        file.arrays[a], file.arrays[b] = file.arrays[b], file.arrays[a]


def drop_array(rng: Random, file: File) -> None:
    file.arrays.pop(array_of(rng, file), None)


ALTERATIONS: tuple[Callable[[Random, File], None], ...] = (
    *(put_oddity, nudge_number, drop_key, add_key, swap_values, splice_branch),
    *(same_key_of_another, deepen, lengthen, version, put_values, put_values, scale_values),
    *(permute, reshape, cast, swap_arrays, drop_array),
)


def listing_altered(rng: Random, listing: dict[str, Any]) -> None:
    """Alter what the header says of an array: huge, negative, overlapping, of an unknown dtype."""
    if not listing:
        return
    entry = listing[sorted(listing)[rng.integers(len(listing))]]
    match rng.integers(5):
        case 0:
            entry["shape"] = [int(rng.choice([2**40, 2**62, 0, 1, 3]))] * int(rng.integers(4))
        case 1:
            entry["dtype"] = str(rng.choice(["F16", "BF16", "I32", "U64", "F8_E4M3", "x"]))
        case 2:
            entry["data_offsets"] = [int(x) for x in rng.integers(0, 2**12, 2)]
        case 3:
            tree, key = place_of(rng, entry)
            tree[key] = copy.deepcopy(ODD[rng.integers(len(ODD))])
        case _:
            del entry[sorted(entry)[rng.integers(len(entry))]]


def bytes_altered(rng: Random, content: bytes) -> bytes:
    """Flip, cut, insert or repeat bytes, after the seal's place or anywhere."""
    changed = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(8 if rng.random() < 0.95 else 0, max(len(changed), 9)))
        match rng.integers(5):
            case 0:
                if at < len(changed):
                    changed[at] ^= 1 << int(rng.integers(8))
            case 1:
                if at < len(changed):
                    changed[at] = int(rng.choice(list(b'0129-.eE"{}[]:,\\ \x00\xff')))
            case 2:
                del changed[at : at + int(rng.integers(1, 100))]
            case 3:
                changed[at:at] = changed[at : at + int(rng.integers(1, 200))]
            case _:
                donor = list(files().values())[rng.integers(len(files()))]
                start = int(rng.integers(len(donor)))
                size = int(rng.integers(1, 300))
                changed[at : at + size] = donor[start : start + size]
    return resealed(changed)


def altered(case: int) -> tuple[str, bytes]:
    """The learner of a case, and its file."""
    rng = np.random.default_rng([51, case])
    names = sorted(files())
    name = names[rng.integers(len(names))]
    if rng.random() < 0.15:
        return name, bytes_altered(rng, files()[name])
    file = File(files()[name])
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if file.envelope["header"]:
            alter = ALTERATIONS[rng.integers(len(ALTERATIONS))]
            with suppress(OverflowError, RecursionError):  # of numbers and depths put in before
                alter(rng, file)
    if rng.random() < 0.1:
        return name, file.content(lambda listing: listing_altered(rng, listing))
    content = file.content()
    return name, bytes_altered(rng, content) if rng.random() < 0.05 else content


# -- cases ----------------------------------------------------------------------------------------


def read(case: int) -> str:
    """Read the header and arrays of a case."""
    path = _rig.scratch() / "file.mercer"
    path.write_bytes(altered(case)[1])
    try:
        model_file.read_state(path)
    except ValueError:
        return "refused"
    return "read"


def _finite(answers: dict[str, Any]) -> bool:
    return all(np.isfinite(np.asarray(values, np.float64)).all() for values in answers.values())


def use(case: int) -> str:
    """Load the model of a case, ask it, let it learn and ask it again."""
    name, content = altered(case)
    path = _rig.scratch() / "file.mercer"
    path.write_bytes(content)
    took = _seconds(name, path)
    if took[0] > LONGEST_S:  # what is compiled on the first call is not the file's doing
        took = _seconds(name, path)
    if took[0] > LONGEST_S:
        raise RuntimeError(f"took {took[0]:.1f} s: {took[1]}")
    return took[1]


def _seconds(name: str, path: Path) -> tuple[float, str]:
    start = time.perf_counter()
    outcome = _used(name, path)
    return time.perf_counter() - start, outcome


def _used(name: str, path: Path) -> str:
    try:
        model = load_model(path)
    except ValueError:
        return "refused"
    script = golden()
    try:
        if not _finite(script.answers_of(model, script.asked(name))):
            raise RuntimeError("an answer is not finite")
    except (ValueError, DivergenceError):  # rows that waited for more are learned for an answer
        return "an answer refused"
    try:
        script.learn_on(name, model)
        if not _finite(script.answers_of(model, script.asked(name))):
            raise RuntimeError("an answer after learning is not finite")
    except (ValueError, DivergenceError):
        return "learning refused"
    return "answers and learns"


def main(arguments: list[str]) -> int:
    """Run the cases and keep the table."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--headers", type=int)
    parser.add_argument("--models", type=int)
    parser.add_argument("--case", type=int)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if options.case is not None:
        print(altered(options.case)[0], use(options.case))
        return 0
    for name in files():  # compile before cases are timed
        _used(name, GOLDEN / f"{name}.mercer")
    n_headers = (
        options.headers if options.headers is not None else 2_000 if options.short else 1_000_000
    )
    n_models = options.models if options.models is not None else 500 if options.short else 100_000
    report = _rig.Report("files", options)
    for words, run, n in (("headers read", read, n_headers), ("models used", use, n_models)):
        tally = _rig.each_case(run, range(options.first, options.first + n), MEMORY)
        report.add_tally(words, tally)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
