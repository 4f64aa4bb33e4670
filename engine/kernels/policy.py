"""How every kernel is compiled: the one place that names a Numba option.

Kernels release the GIL, so that the window and the recorder run while the engine works; they keep IEEE infinities and
NaNs, because minus infinity masks tokens; and they are compiled once a machine, into a cache that only its user can
write. The cache's folder is named by the host's CPU and a hash of all kernel sources: Numba itself looks only at the
file of the function it loads and would serve stale code after a change in a helper.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import llvmlite.binding as llvm
import numba
import numba.core.config
import platformdirs
from numba.core.caching import FunctionCache

log = logging.getLogger(__name__)

config: Any = numba.core.config


def target_cpu() -> str:
    """Name of the CPU that Numba compiles for: the host's, or `NUMBA_CPU_NAME`."""
    return str(config.CPU_NAME or llvm.get_host_cpu_name())


def target_features() -> frozenset[str]:
    """Instruction-set features that Numba may use, without their plus signs."""
    if config.CPU_FEATURES:
        return frozenset(f[1:] for f in config.CPU_FEATURES.split(",") if f.startswith("+"))
    if config.CPU_NAME and llvm.get_host_cpu_name() != config.CPU_NAME:
        # LLVM knows each CPU's features by name but does not list them; these are the ones that choose tile shapes.
        wide = {"haswell", "skylake", "x86-64-v3", "znver1", "znver2", "znver3"}
        wider = {"skylake-avx512", "icelake-server", "sapphirerapids", "x86-64-v4", "znver4", "znver5"}
        if config.CPU_NAME in wider:
            return frozenset({"avx512f", "avx2", "fma"})
        return frozenset({"avx2", "fma"}) if config.CPU_NAME in wide else frozenset()
    return frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)


@cache
def _warn_once(directory: Path, why: str | None) -> None:
    log.warning("compiled kernels cannot be kept in %s (%s); they are compiled at each start", directory, why)


class _Cache(FunctionCache):
    """Numba's own, but a damaged file or a full disk costs only the time to compile again."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # what a crash left half written can raise anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:  # as above, where the flush failed too
            _warn_once(Path(self.cache_path).parent, getattr(error, "strerror", None) or str(error))


def _cache_directory() -> Path | None:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = hashlib.sha256()
    for part in (numba.__version__, llvm.llvm_version_info, *(path.read_bytes() for path in sources)):
        digest.update(part if isinstance(part, bytes) else repr(part).encode())
    root = Path(platformdirs.user_cache_dir("sottovoce", appauthor=False)) / "kernels"
    directory = root / f"{target_cpu()}-{digest.hexdigest()[:16]}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        root.chmod(0o700)  # cached code is run as it is, so nobody else may put it there
    except OSError as error:
        _warn_once(directory, error.strerror)
        return None
    return directory if os.access(directory, os.W_OK) else None


_directory = _cache_directory()
if _directory is not None:
    config.CACHE_DIR = str(_directory)

# Numba's last choice of a thread pool, workqueue, ends the process when two threads use it at once.
pool_lock = Lock()

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",  # division by zero gives infinity instead of raising: no branch in inner loops
    "fastmath": {"reassoc", "contract"},
}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` to run on the calling thread."""
    return _kept(numba.njit(**_OPTIONS)(function))


def parallel_kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` with `numba.prange` loops spread over the engine's threads.

    Entering one costs 10 to 100 us, so these are for the large products; callers hold `pool_lock` meanwhile.
    """
    return _kept(numba.njit(parallel=True, **_OPTIONS)(function))


def inline(function: Callable[..., Any]) -> Any:
    """Compile a helper that only kernels call; it becomes part of its caller."""
    return numba.njit(**_OPTIONS)(function)


def _kept(dispatcher: Any) -> Any:
    """The function with our cache, where there can be one, put where its own `enable_caching` puts Numba's."""
    if _directory is not None:
        dispatcher._cache = _Cache(dispatcher.py_func)
    return dispatcher
