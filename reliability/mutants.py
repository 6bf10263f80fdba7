"""Mistakes put into the code on purpose, to see whether the tests find them.

*Mutants.* A mutant is the code with one small mistake: a comparison, a number, a truth value or a
name of a key that is another one, a part of a condition that is left out, a guard that is always or
never passed, an error that is not raised or not caught, a statement that is missing, a copy that is
none, an answer that is None. Messages are left alone. All mutants of some modules are tried: of
those that read and write model files, store and restore what a model is, undo calls, read streams,
and check what comes to the server. A few do nothing else than the code: they stand in
`mutants.toml`, with reasons, and are counted apart, as are those that cannot be put into code that
is loaded.

*Tests.* A process runs a file of tests once and notes which statements each test comes to. For each
mutant it forks. The child puts the mistake into the code that is loaded already, and runs the tests
that come to its statement, the fastest first, up to twelve seconds of a file, until one fails. A
mutant that no test of any file finds counts as broken.

To run it (Linux):

    python reliability/mutants.py                    # long: all of them, up to two hours
    python reliability/mutants.py --short            # some of those of model files
    python reliability/mutants.py --modules mercer/records.py
    python reliability/mutants.py --only _join       # those whose name has this in it
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
import os
import random
import resource
import select
import signal
import sys
import time
import tomllib
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple, NoReturn

import _rig

SOURCE = _rig.ROOT / "src"
#: Modules, and those of their functions and classes that are concerned, where not all are.
SCOPE: dict[str, tuple[str, ...]] = {
    "mercer/model_file.py": (),
    "mercer/records.py": (),
    "mercer/estimators/files.py": (),
    "mercer/estimators/fitting.py": (
        *("all_or_nothing", "as_before", "own_arrays", "_own", "_own_inside", "_is_ours"),
        *("KernelEstimator._partial_fit", "KernelEstimator._meet"),
    ),
    "mercer/learning/learner.py": (
        *("Learner._state_with", "Learner._restore_with_function", "StepLearner.all_or_nothing"),
    ),
    "mercer/learning/kernel_steps.py": ("KernelLearner._learn",),
    "mercer/learning/feature_steps.py": (
        *("FeatureLearner.learn", "FeatureLearner._put_back", "FeatureLearner._undo_provisional"),
        *("FeatureLearner._mark", "FeatureLearner._back", "FeatureLearner.restore"),
    ),
    "mercer/learning/sums.py": (
        *("SecondOrderLearner.learn", "SecondOrderLearner._mark", "SecondOrderLearner._back"),
    ),
    "mercer/streams/mixture.py": ("StreamLearner.learn", "StreamLearner.restore"),
    "mercer_app/files/arrivals.py": (),
    "mercer_app/training/streaming.py": (),
    "mercer_app/serve/_server.py": (),
    "mercer_app/serve/_answers.py": (),
}
#: Files of tests in the order in which they are asked, and which of their tests (all for "").
TESTS = {
    "tests/test_container.py": "",
    "tests/test_model_file.py": "",
    "tests/test_records.py": "",
    "tests/test_golden_models.py": "",
    "tests/test_streaming_contract.py": "",
    "tests/test_learner.py": "fails or nonsense or makes_no_sense or diverges",
    "tests/test_estimators.py": "fails or not_stay",
    "tests/quality/test_mapped_models.py": "read_only or goes_on",
    "tests/quality/test_random_features.py": "fails or interrupted or wait or saved or cut",
    "tests/quality/test_dictionary.py": "fails or files or new_classes",
    "tests/quality/test_stream_default.py": "interrupted or undone or fails or file",
    "tests/quality/test_conformal.py": "file or sparse_rows",
    "tests/app/test_stream_rows.py": "",
    "tests/system/test_stream_command.py": "",
    "tests/app/test_null_values.py": "stream",
    "tests/app/test_data_dialects.py": "arriv",
    "tests/app/test_hostile_tables.py": "socket or stream or date",
    "tests/app/test_stream_files.py": "",
    "tests/system/test_serve.py": "",
}
SHORT_TESTS = {"tests/test_container.py": "not killed and not every and not come_back"}
SHORT = ("read_tensors", "_decode_tensors", "_check_seal", "_encode", "replacing", "_locked")
SHORT_N = 25
#: Fixtures with threads, which a forked process lacks: it makes them anew.
THREADED = ("server", "servers")
#: Seconds of tests of a file that are asked for each mutant.
ASKED_S = 12.0
MOST_MEMORY = 8 << 30  # bytes of a child
_AS_THE_CODE, _NOT_POSSIBLE = "as the code", "not possible"


class Mutant(NamedTuple):
    """A mistake: a node of the tree of a module that takes the place of another one."""

    module: str
    unit: tuple[str, ...]  # names of the classes around, and that of a function or value
    kind: str  # "body" or "defaults" of a function, or "value"
    statement: ast.stmt  # of the unit
    parent: ast.AST
    field: str
    index: int | None
    new: ast.AST
    line: int  # of the statement that it is in
    name: str

    def put(self) -> None:
        """Put the mistake into the tree."""
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.index] = self.new
        ast.fix_missing_locations(self.statement)


# -- mistakes --------------------------------------------------------------------------------------

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
#: Calls of functions that may as well return what they are given, and of methods, their object.
_AROUND = {"sorted", "list", "tuple", "dict", "deepcopy", "array", "abs"}
_AFTER = {"strip", "lstrip", "rstrip", "lower", "removeprefix", "copy", "item"}


def _mistakes(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    match node:
        case ast.Compare(ops=ops):
            for number, op in enumerate(ops):
                other = [*ops[:number], _COMPARED[type(op)](), *ops[number + 1 :]]
                yield ast.Compare(node.left, other, node.comparators)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for number in range(len(values)):
                rest = [*values[:number], *values[number + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.BinOp(op=ast.BitOr()):
            yield from (node.left, node.right)
        case ast.BinOp(op=op) if type(op) in _CALCULATED:
            yield ast.BinOp(node.left, _CALCULATED[type(op)](), node.right)
        case ast.AugAssign(op=op):
            if type(op) in _CALCULATED:
                yield ast.AugAssign(node.target, _CALCULATED[type(op)](), node.value)
            yield ast.Pass()
        case ast.Constant(value=value):
            yield from map(ast.Constant, _values(value))
        case ast.IfExp():
            yield from (node.body, node.orelse)
        case ast.Slice():
            if node.lower is not None:
                yield ast.Slice(None, node.upper, node.step)
            if node.upper is not None:
                yield ast.Slice(node.lower, None, node.step)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
            yield ast.Call(ast.Name(_CALLED[name], ast.Load()), node.args, node.keywords)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _AROUND:
            if len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
                yield node.args[0]
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _AFTER:
            yield value
        case ast.Return(value=value) if value is not None:
            if not (isinstance(value, ast.Constant) and value.value is None):
                yield ast.Return(None)
        case ast.Raise() | ast.Delete() | ast.Break() | ast.Continue():
            yield ast.Pass()
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Assign(targets=targets):
            names = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
            if not any(isinstance(one, ast.Name) and one.id not in names for one in targets):
                yield ast.Pass()
        case ast.ExceptHandler(type=ast.Tuple(elts=kinds)):
            for number in range(len(kinds)):
                rest = [*kinds[:number], *kinds[number + 1 :]]
                caught = ast.Tuple(rest, ast.Load())
                yield ast.ExceptHandler(caught, node.name, node.body)
    if isinstance(parent, ast.If | ast.comprehension) and isinstance(node, ast.expr):
        conditions = [parent.test] if isinstance(parent, ast.If) else parent.ifs
        if node in conditions:
            yield from map(ast.Constant, (True, False))


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, float):
        yield 2.0 * value if value else 1.0
    elif isinstance(value, str) and " " not in value:  # others are words for people
        yield value + "x"
    elif isinstance(value, bytes):
        yield value + b"x"


_LEFT_ALONE = (ast.JoinedStr, ast.Assert, ast.Raise, ast.FunctionDef, ast.ClassDef)


def _places(
    node: ast.AST, statement: ast.stmt
) -> Iterator[tuple[ast.AST, str, int | None, ast.AST, ast.stmt]]:
    """All places below a node with a mistake for each, and the statement that each is in."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "ctx"):
            continue
        if isinstance(node, ast.FunctionDef | ast.arguments) and name in ("args", "defaults"):
            continue
        nodes = value if isinstance(value, list) else [value]
        for number, one in enumerate(nodes):
            if not isinstance(one, ast.AST) or _is_words(one) or _is_of_zip(one, node):
                continue
            inside = one if isinstance(one, ast.stmt) else statement
            for other in _mistakes(one, node):
                yield node, name, number if value is nodes else None, other, inside
            if not isinstance(one, _LEFT_ALONE) or isinstance(one, ast.FunctionDef):
                yield from _places(one, inside)


def _is_words(node: ast.AST) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_of_zip(node: ast.AST, parent: ast.AST) -> bool:
    """Whether it is a keyword of `zip`: lengths that are alike need no word."""
    called = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name)
    return called and isinstance(node, ast.keyword) and parent.func.id == "zip"


def _units(
    body: Sequence[ast.stmt], around: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, ast.stmt]]:
    """Functions and values of a module or class."""
    for one in body:
        match one:
            case ast.FunctionDef():
                yield (*around, one.name), "body", one
                yield (*around, one.name), "defaults", one
            case ast.ClassDef():
                yield from _units(one.body, (*around, one.name))
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                of_types = any(word in ast.dump(one) for word in ("TypeVar", "TypeAlias"))
                if one.value is not None and name != "__all__" and not of_types:
                    yield (*around, name), "value", one


def mutants_of(module: str, chosen: tuple[str, ...] = ()) -> tuple[ast.Module, list[Mutant]]:
    """Return the tree of a module, and its mutants."""
    text = (SOURCE / module).read_text(encoding="utf-8")
    tree, found, names = ast.parse(text), [], {}
    for unit, kind, statement in _units(tree.body):
        name = ".".join(unit)
        if chosen and name not in chosen and unit[0] not in chosen:
            continue
        if kind == "defaults":
            assert isinstance(statement, ast.FunctionDef)
            places = (
                (statement.args, which, number, other, statement)
                for which in ("defaults", "kw_defaults")
                for number, value in enumerate(getattr(statement.args, which))
                if value is not None
                for other in _mistakes(value, statement.args)
            )
        else:
            places = _places(statement, statement)
        for parent, where, number, other, inside in places:
            old = getattr(parent, where)
            words = f"{module} {name}: {_said(old if number is None else old[number], other)}"
            names[words] = count = names.get(words, 0) + 1
            words += f" ({count})" if count > 1 else ""
            line = inside.lineno
            found.append(
                Mutant(module, unit, kind, statement, parent, where, number, other, line, words)
            )
    return tree, found


def _said(old: ast.AST, new: ast.AST) -> str:
    if isinstance(old, ast.ExceptHandler) and isinstance(new, ast.ExceptHandler):
        kinds, rest = (set(ast.unparse(one.type).strip("()").split(", ")) for one in (old, new))
        return f"except without {', '.join(kinds - rest)}"
    before = ast.unparse(old).split("\n")[0]
    return f"{before[:90]} -> {'' if isinstance(new, ast.Pass) else ast.unparse(new)[:90]}"


# -- putting them into code that is loaded ---------------------------------------------------------


def graft(
    codes: list[CodeType], unit: tuple[str, ...], kind: str, statement: ast.stmt, to: Any
) -> bool:
    """Put a unit of a module into the one that is loaded; whether that is possible."""
    holder = to
    for name in unit[:-1]:
        holder = vars(holder)[name]
    if kind == "value":
        if hasattr(holder, "_fields") or hasattr(holder, "__dataclass_fields__"):
            return False
        setattr(holder, unit[-1], _run(statement, to, holder)[unit[-1]])
        return True
    function = _function(vars(holder).get(unit[-1]))
    if function is None:
        return False
    known = function.__code__
    if kind == "defaults":
        plain = copy.copy(statement)
        plain.decorator_list = []
        new = _run(plain, to, holder)[unit[-1]]
        function.__defaults__, function.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
        return True
    for code in codes:
        same = code.co_qualname == known.co_qualname, code.co_firstlineno == known.co_firstlineno
        if all(same) and code.co_freevars == known.co_freevars:
            function.__code__ = code
            getattr(vars(holder)[unit[-1]], "cache_clear", bool)()  # of what it answered before
            return True
    return False


def _run(statement: ast.stmt, module: Any, holder: Any) -> dict[str, Any]:
    flags = annotations.compiler_flag
    code = compile(ast.Module([statement], []), module.__file__, "exec", flags, dont_inherit=True)
    inside = dict(vars(holder))
    exec(code, vars(module), inside)
    return inside


def _function(found: Any) -> Any:
    """The function that is in a property, a class method, or decorated."""
    for name in ("fget", "__func__", "func"):
        found = getattr(found, name, None) or found
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    return found if hasattr(found, "__code__") else None


def codes_of(tree: ast.Module, module: Any) -> list[CodeType]:
    """Code of all functions of a tree."""
    found = [compile(tree, module.__file__, "exec", dont_inherit=True)]
    for code in found:
        found += [one for one in code.co_consts if isinstance(one, CodeType)]
    return found


# -- running tests ---------------------------------------------------------------------------------


_HIT = "_mutants_hit"


class _Looked(ast.NodeTransformer):
    """Statements of functions, each after a call that notes its line."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Put a call before each statement below a node."""
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and not isinstance(node, ast.Module | ast.ClassDef):
                setattr(node, name, [part for one in body for part in (_noted(one), one)])
        return node


def _noted(statement: ast.stmt) -> ast.stmt:
    call = ast.Call(ast.Name(_HIT, ast.Load()), [ast.Constant(statement.lineno)], [])
    return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), statement))


@dataclass
class Seen:
    """What a test took, and the lines of the statements that it came to."""

    seconds: float = 0.0
    lines: set[tuple[str, int]] = field(default_factory=set)

    @property
    def modules(self) -> set[str]:
        """Names of the modules of these lines."""
        return {module for module, _ in self.lines}


class Trier:
    """A plugin of pytest: runs all tests of a file once, and some of them for each mutant.

    Parameters
    ----------
    trees : dict of str to Module
        Trees of the modules.
    mutants : list of Mutant
        Those to try.
    out : file
        Where to say what was found.
    """

    def __init__(self, trees: dict[str, ast.Module], mutants: list[Mutant], out: Any) -> None:
        self.trees, self.mutants, self.out = trees, mutants, out
        self.seen: dict[str, Seen] = {}
        self.now = Seen()
        self.is_child = False

    def pytest_collection(self, session: Any) -> None:
        """Let hypothesis find failures, but not make them small."""
        import hypothesis

        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        before = hypothesis.settings.get_profile("repeatable")
        hypothesis.settings.register_profile("mutants", before, phases=phases)
        hypothesis.settings.load_profile("mutants")

    pytest_collection.tryfirst = True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a failure, which ends a child."""
        if report.failed and self.is_child:
            self._say(by=f"{report.nodeid}: {report.longreprtext[-500:]}")
            os._exit(1)
        if report.failed:
            self._say(trouble=f"{report.nodeid} fails as it is: {report.longreprtext[-300:]}")
            os._exit(0)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run the tests in place of pytest."""
        items = {item.nodeid: item for item in session.items}
        for name in self.trees:
            module = importlib.import_module(_name(name))
            vars(module)[_HIT] = lambda line, name=name: self.now.lines.add((name, line))
        self._put({name: _Looked().visit(copy.deepcopy(one)) for name, one in self.trees.items()})
        for item in session.items:
            self._look(item, next((one for one in session.items if one is not item), None))
        self._put(self.trees)
        mine = self.mutants
        asked = [[items[name] for name in self._asked(one)] for one in mine]
        chosen = {item.nodeid for some in asked for item in some}
        whole = self._child(lambda: None, [items[name] for name in items if name in chosen])
        if whole != "not found":
            self._say(trouble=f"the code as it is: {whole}")
            return True
        for mutant, some in zip(mine, asked, strict=True):
            if some:
                self._say(name=mutant.name, ended=self._try(mutant, some))
        return True

    pytest_runtestloop.tryfirst = True

    def _say(self, **what: Any) -> None:
        self.out.write(json.dumps(what) + "\n")

    def _look(self, item: Any, other: Any) -> None:
        """Run a test as it is, and note the statements that it comes to."""
        seen = self.seen[item.nodeid] = self.now = Seen()
        begun = time.monotonic()
        item.session._setupstate.teardown_exact(item)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=other)
        seen.seconds = time.monotonic() - begun

    def _put(self, trees: dict[str, ast.Module]) -> None:
        """Put all functions of trees into the modules."""
        for name, tree in trees.items():
            module = importlib.import_module(_name(name))
            codes = codes_of(tree, module)
            for unit, kind, statement in _units(tree.body):
                if kind == "body":
                    graft(codes, unit, kind, statement, module)

    def _asked(self, mutant: Mutant) -> list[str]:
        """Names of the tests that come to a mutant, the fastest first."""
        place, all_seen = (mutant.module, mutant.line), self.seen.items()
        if mutant.kind == "body":
            found = [name for name, seen in all_seen if place in seen.lines]
        elif found := [name for name, seen in all_seen if mutant.module in seen.modules]:
            found += [name for name, seen in all_seen if not seen.lines]  # they may read values
        found.sort(key=lambda name: self.seen[name].seconds)
        until = accumulate(self.seen[name].seconds for name in found)
        return [name for name, end in zip(found, until, strict=True) if end < ASKED_S]

    def _try(self, mutant: Mutant, items: list[Any]) -> str:
        def put() -> None:
            module = importlib.import_module(_name(mutant.module))
            mutant.put()
            codes = codes_of(self.trees[mutant.module], module) if mutant.kind == "body" else []
            if not graft(codes, mutant.unit, mutant.kind, mutant.statement, module):
                os._exit(3)

        return self._child(put, items)

    def _child(self, put: Any, items: list[Any]) -> str:
        """How tests end in a child with a change to the code."""
        child = os.fork()
        if child == 0:
            self._run(put, items)
        limit = 5.0 + 5.0 * sum(self.seen[item.nodeid].seconds for item in items)
        watched = os.pidfd_open(child)
        slow = not select.select([watched], [], [], limit)[0]
        os.close(watched)
        if slow:
            os.killpg(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if slow:
            return "too slow"
        if code < 0:
            return "crash"
        return {0: "not found", 1: "found", 3: _NOT_POSSIBLE}.get(code, "found")

    def _run(self, put: Any, items: list[Any]) -> NoReturn:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        self.is_child = True
        try:
            put()
            kept: list[Any] = []
            for item in items:
                known = item._fixtureinfo.name2fixturedefs
                for made in (one for name in THREADED for one in known.get(name, ())):
                    kept.append((made.cached_result, [*made._finalizers]))  # or they would end
                    made.cached_result = None
                    made._finalizers.clear()
            for number, item in enumerate(items):
                self._say(by=item.nodeid)
                item.session._setupstate.teardown_exact(item)
                others = (one for one in item.session.items if one is not item)
                after = items[number + 1] if number + 1 < len(items) else next(others, None)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        except BaseException:
            self._say(by=traceback.format_exc()[-500:])
            os._exit(1)
        os._exit(0)


def _name(module: str) -> str:
    return module.removesuffix(".py").replace("/", ".")


def found_by(
    file: str, which: str, trees: dict[str, ast.Module], mutants: list[Mutant]
) -> dict[str, str]:
    """How mutants ended that tests of a file come to; the tests run in a process of their own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            import pytest

            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            os.chdir(_rig.ROOT)
            out = os.fdopen(writer, "w", buffering=1)
            words = [file, "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
            words += ["-k", which] if which else []
            code = pytest.main(words, plugins=[Trier(trees, mutants, out)])
            out.write(json.dumps({"code": int(code)}) + "\n")
        finally:
            os._exit(0)
    os.close(writer)
    found: dict[str, str] = {}
    by = ""
    with os.fdopen(reader) as lines:
        for line in lines:
            said = json.loads(line)
            by = said.get("by", by)
            if "trouble" in said:
                raise RuntimeError(f"{said['trouble']} {by}")
            if "name" in said:
                found[said["name"]] = said["ended"]
            elif said.get("code"):
                raise RuntimeError(f"pytest ended with {said['code']} on {file} -k {which!r}")
    os.waitpid(child, 0)
    return found


# -- the whole -------------------------------------------------------------------------------------


def known() -> dict[str, str]:
    """Mutants that do nothing else than the code, and reasons."""
    place = Path(__file__).with_name("mutants.toml")
    groups = tomllib.loads(place.read_text(encoding="utf-8"))["same"]
    return {name: group["why"] for group in groups for name in group["mutants"]}


def main(arguments: list[str]) -> int:
    """Try the mutants and say which were not found."""
    parser = _rig.parser(__doc__)
    modules, files = list(SCOPE), list(TESTS)
    parser.add_argument("--modules", nargs="+", choices=modules, default=modules, metavar="MODULE")
    parser.add_argument("--only", help="mutants with this text in their name")
    parser.add_argument("--sample", type=int, help="at most so many of each module")
    parser.add_argument("--tests", nargs="+", choices=files, metavar="FILE", help="only these")
    options = parser.parse_args(arguments)
    report = _rig.Report("mutants", options, "only", "sample", "tests", names=SCOPE)
    same, _rig.SHOWN = known(), 10_000
    trees, mutants = {}, []
    for module, chosen in SCOPE.items():
        trees[module], found = mutants_of(module, chosen)
        mutants += found
    if gone := same.keys() - {one.name for one in mutants}:
        print("mutants.toml names what is no mutant:", *sorted(gone), sep="\n  ")
        return 1
    assert {one.unit[0] for one in mutants}.issuperset(SHORT)
    mutants = [one for one in mutants if one.module in options.modules]
    mutants = [one for one in mutants if (options.only or "") in one.name]
    if options.short:
        mutants = [one for one in mutants if one.unit[0] in SHORT]
    if most := SHORT_N if options.short else options.sample:
        mutants = [one for module in trees for one in _some(mutants, module, most)]
    ended = {one.name: _AS_THE_CODE for one in mutants if one.name in same}
    tests = SHORT_TESTS if options.short else TESTS
    for file, which in tests.items():
        if file not in (options.tests or tests):
            continue
        begun = time.monotonic()
        left = [one for one in mutants if ended.get(one.name, "not found") == "not found"]
        concerned = {name: trees[name] for name in dict.fromkeys(one.module for one in left)}
        ended |= found_by(file, which, concerned, left)
        n = sum(ended.get(one.name, "not found") != "not found" for one in left)
        print(f"  {file}: {n} of {len(left)} found, {time.monotonic() - begun:.0f} s", flush=True)
    for module in trees:
        tally, apart = _rig.Tally(), dict.fromkeys((_AS_THE_CODE, _NOT_POSSIBLE), 0)
        for number, one in enumerate(mutants):
            if one.module != module:
                continue
            how = ended.get(one.name, "no test comes to it")
            if how in apart:
                apart[how] += 1
                continue
            missed = how in ("not found", "no test comes to it")
            tally.add(number, how, f"line {one.line}: {one.name}" if missed else "")
        if tally.n_cases:
            report.add_tally(module, tally, **apart)
    for name in (one.name for one in mutants if ended.get(one.name) == _NOT_POSSIBLE):
        print(f"  {_NOT_POSSIBLE}: {name}")
    return report.end()


def _some(mutants: list[Mutant], module: str, most: int) -> list[Mutant]:
    found = [one for one in mutants if one.module == module]
    return random.Random(0).sample(found, min(most, len(found)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
