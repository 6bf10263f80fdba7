"""What a test may leave behind in its process, so that another one after it fails, or passes.

`conftest.py` gives each test, and each module, a look at all of it before and after. What workers,
threads and files of a module's fixtures are is looked at when the module has ended.
"""

import logging
import os
import signal
import sys
import threading
import time

import psutil

SIGNALS = [number for number in signal.valid_signals() if number < 32]
LOGGERS = (None, "mercer", "py.warnings")
# What pytest says of the test that runs, and what packages say when they are imported.
OTHERS = {
    "PYTEST_CURRENT_TEST",
    *("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"),  # scikit-learn
    "_RJEM_MALLOC_CONF",  # polars
    *("PYGAME_HIDE_SUPPORT_PROMPT", "SDL_AUDIODRIVER"),  # gymnasium
    "RAY_CLIENT_MODE",
    "TORCHINDUCTOR_CACHE_DIR",  # PyTorch
}
#: Seconds within which threads and processes that were ended have gone.
PATIENCE = 10.0
# Helpers that packages keep until the process ends: they serve all that comes later alike.
KEPT_THREADS = ("ThreadPoolExecutor", "asyncio_", "ExecutorManager", "QueueManager")
KEPT_PROCESSES = ("resource_tracker", "joblib.externals.loky", "forkserver")


def _environment():
    return {name: value for name, value in os.environ.items() if name not in OTHERS}


def _folder():
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "a folder that was removed"


def _of(module, what):
    """What a module that may not have been imported says."""
    found = sys.modules.get(module)
    return None if found is None else what(found)


def _logging(log):
    # pytest has handlers of its own.
    handlers = [one for one in log.handlers if not type(one).__module__.startswith("_pytest")]
    return (log.level, log.disabled, log.propagate, *handlers)


def _thread_hook():
    """The handler, if it is neither Python's own nor pytest's, some of which are new each time."""
    hook = threading.excepthook
    usual = hook is threading.__excepthook__ or hook.__module__.startswith("_pytest")
    return "the usual one" if usual else hook


#: By name: what says it, cheaply.
STATE = {
    "environment": _environment,
    "current folder": _folder,
    "handlers of signals": lambda: {number: signal.getsignal(number) for number in SIGNALS},
    # Not `sys.excepthook`: packages set it when they are imported, and no test comes to it.
    "handler of errors in threads": _thread_hook,
    "arguments of the command line": lambda: list(sys.argv),
    "recursion limit": sys.getrecursionlimit,
    "logging": lambda: {str(name): _logging(logging.getLogger(name)) for name in LOGGERS},
    "numpy's errors": lambda: _of("numpy", lambda numpy: numpy.geterr()),
    "numpy's printing": lambda: _of("numpy", lambda numpy: repr(numpy.get_printoptions())),
    "scikit-learn's settings": lambda: _of("sklearn", lambda sklearn: sklearn.get_config()),
    "figures of matplotlib": lambda: _of(
        "matplotlib._pylab_helpers", lambda helpers: sorted(helpers.Gcf.figs)
    ),
}


def state():
    """Return what there is to leave behind, by name."""
    return {name: said() for name, said in STATE.items()}


def differences(before, after):
    """Return a line for each thing that is not as it was."""
    lines = []
    for name, was in before.items():
        now = after[name]
        if was is None or was == now:  # None: its package came meanwhile
            continue
        if isinstance(was, dict):
            lines += [
                f"{name}: {getattr(key, 'name', key)}: {was.get(key)!r} -> {now.get(key)!r}"
                for key in {*was, *now}
                if was.get(key) != now.get(key)
            ]
        else:
            lines.append(f"{name}: {was!r} -> {now!r}")
    return lines


def put_back(before):
    """Undo what can be undone, so that one test is blamed and not all after it."""
    environment = before["environment"]
    for name in set(os.environ) - set(environment) - OTHERS:
        del os.environ[name]
    os.environ.update(environment)
    if before["current folder"] != _folder():
        os.chdir(before["current folder"])
    for number, handler in before["handlers of signals"].items():
        if handler is not None and signal.getsignal(number) != handler:
            signal.signal(number, handler)


def threads():
    """Return the threads that would keep the process from ending."""
    return {
        one
        for one in threading.enumerate()
        if not one.daemon and not one.name.startswith(KEPT_THREADS)
    }


def processes():
    """Return the processes that were started here, or by those, and still run."""
    found = {}
    for one in psutil.Process().children(recursive=True):
        try:
            words = " ".join(one.cmdline())
            if one.status() != psutil.STATUS_ZOMBIE and not any(k in words for k in KEPT_PROCESSES):
                found[one] = words
        except psutil.NoSuchProcess:
            continue
    return found


def running(threads_before, processes_before):
    """Return a line for each thread and process that began since and does not end."""
    until = time.monotonic() + PATIENCE
    while True:
        lines = [f"thread {one.name!r}" for one in threads() - threads_before]
        lines += [
            f"process {one.pid}: {words}"
            for one, words in processes().items()
            if one not in processes_before
        ]
        if not lines or time.monotonic() > until:
            return lines
        time.sleep(0.02)
