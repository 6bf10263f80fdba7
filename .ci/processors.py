"""Run the numerical tests as other processors would, each in its own process and compile cache.

numba compiles for the processor that it runs on, OpenBLAS and NumPy choose their loops by it: sums
are taken in another order and products are rounded or not, so that the last digits differ by
machine. What a processor lacks cannot be tried on it, and is said. The one whose loops OpenBLAS
takes here anyway is left out unless it is named: `make test` has run as that one.

    python .ci/processors.py [NAME ...] [-- PYTEST_ARGUMENT ...]  # all numerical tests without

`.ci/oldest.py` runs as one of them, with the numerical tests among its own: what continuous
integration compiles once more tells then of both.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Processor(NamedTuple):
    """What numba compiles for, the loops of OpenBLAS, and of NumPy's those that it may not take."""

    numba: str
    openblas: str
    without: tuple[str, ...]  # beginnings of the names that NumPy gives them
    needs: frozenset[str]  # flags in /proc/cpuinfo


AVX2 = frozenset({"avx", "avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"})
AVX512 = frozenset({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"})
PROCESSORS = {
    # no fused multiply-add, two numbers at a time
    "Nehalem": Processor("generic", "Nehalem", ("",), frozenset({"sse4_2", "popcnt"})),
    "Haswell": Processor("haswell", "Haswell", ("AVX512", "X86_V4"), AVX2),
    "SkylakeX": Processor("skylake-avx512", "SkylakeX", (), AVX2 | AVX512 | {"adx", "rdseed"}),
}
PYTEST = ("-m", "pytest", "-q", "-n", "2", "--dist", "worksteal")
# Tests of what is calculated, from kernels to learners, and of models whose answers are
# written down. What reads, shows, stores and serves is the same on every processor.
NUMERICAL = (
    *("kernels", "kernel_parameters", "maps", "feature_maps", "cosine_features", "philox"),
    *("losses", "risks", "bellman", "lapack", "partitioned"),
    *("learner", "compression", "exact", "functions", "pairwise_oracles", "second_order"),
    *("recipes", "risk_loop", "pair_functions", "novelty_threshold"),
    *("adaptive_filters", "merging", "unregularized", "gaussian_process", "gp_dictionary"),
    *("large_numbers", "row_alone", "golden_models"),
)


def numerical_tests():
    """Return the files of `NUMERICAL`."""
    return [str(next(ROOT.glob(f"tests/**/test_{name}.py"))) for name in NUMERICAL]


def flags():
    """Return what the processor has, as Linux tells; nothing elsewhere."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((set(line.split(":")[1].split()) for line in lines if line[:5] == "flags"), set())


def lacks(name):
    """Return what this machine lacks of the processor."""
    return sorted(PROCESSORS[name].needs - flags())


def own_loops():
    """Return the processor whose loops OpenBLAS takes on this machine."""
    # Imported here: `.ci/oldest.py` reads this file before it has any package.
    import numpy  # noqa: F401 - its OpenBLAS is asked
    from threadpoolctl import threadpool_info

    found = (one for one in threadpool_info() if one["internal_api"] == "openblas")
    return next((one["architecture"] for one in found), "")


def environment(processor, cache):
    """Let every library take this machine for ``processor``."""
    import numpy as np

    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    disabled = [name for name in found if name.startswith(processor.without)]
    return {
        **os.environ,
        "NUMBA_CPU_NAME": processor.numba,
        "NUMBA_CPU_FEATURES": "",  # those of the name, not of this machine
        "NUMBA_CACHE_DIR": cache,
        "OPENBLAS_CORETYPE": processor.openblas,
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "NPY_DISABLE_CPU_FEATURES": " ".join(disabled),
    }


def main(names, arguments):
    """Try the named processors, or all others than this; return whether a test failed on any."""
    if not names:
        own = own_loops()
        names = [name for name, one in PROCESSORS.items() if one.openblas != own]
    command = [sys.executable, *PYTEST, *(arguments or numerical_tests())]
    failed = []
    for name in names:
        if lacking := lacks(name):
            print(f"{name}: left out, this processor has no {', '.join(lacking)}", flush=True)
            continue
        print(f"{name}: the numerical tests", flush=True)
        with tempfile.TemporaryDirectory() as cache:
            env = environment(PROCESSORS[name], cache)
            if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode:
                failed.append(name)
    print(f"failed as {', '.join(failed)}" if failed else "no processor fails", flush=True)
    return bool(failed)


if __name__ == "__main__":
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    sys.exit(main(words[:split], words[split + 1 :]))
