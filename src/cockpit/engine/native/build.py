"""Compiles the loops with the machine's own C compiler, once; without one, torch's operations do the same work."""

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from cockpit.core.writing import whole

log = logging.getLogger("cockpit")
SOURCES = sorted(Path(__file__).parent.glob("*.[ch]"))
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-shared")
# What the processor has, but not its widest registers, in which comparing takes longer; some compilers know neither.
NARROW = "-mno-avx512f"
TUNING = (("-march=native", NARROW), ("-march=native",), ())
WIDE = ("picked", "pairs")  # files that multiply and add: these in the widest, too
SWITCH = "COCKPIT_NATIVE"  # 0: do without
PATIENCE = 60.0  # seconds that a compiler may take
UNUSED = 90 * 86400.0  # seconds after which what an earlier version compiled is removed


@cache
def library() -> ctypes.CDLL | None:
    """The compiled loops; None where they cannot be had, see :func:`problem`."""
    try:
        loops = _loaded(_built())
        loops.join_team.argtypes = [ctypes.c_void_p]
        loops.join_team(team())
        return loops
    except (OSError, RuntimeError, AttributeError, subprocess.SubprocessError, LookupError) as error:
        _problems.append(_reason(error))
        log.info("no compiled loops: %s", _problems[0])
        return None


@cache
def team() -> int | None:
    """Address of the function that starts work on torch's own threads; None where torch does not use libgomp."""
    with suppress(OSError, StopIteration, AttributeError):
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
            paths = {line.split(maxsplit=5)[5].strip() for line in lines if "libgomp" in line}
        mine = next(path for path in paths if Path(path).parent.parent.name == "torch" or len(paths) == 1)
        return ctypes.cast(ctypes.CDLL(mine).GOMP_parallel, ctypes.c_void_p).value
    return None


def problem() -> str | None:
    """Why there are no compiled loops; None if there are."""
    return None if library() is not None else _problems[0]


OTHERS = 0o022  # the right of anybody else to write
SUM = ".sum"  # beside the library: its checksum
_problems: list[str] = []


def _built() -> Path:
    if os.environ.get(SWITCH, "") == "0":
        raise LookupError(f"{SWITCH}=0")
    if not sys.platform.startswith(("linux", "darwin")):
        raise LookupError(f"they are not made for {sys.platform}")
    target = _folder() / f"loops-{_key()}.so"
    if not _trusted(target):
        _compile(target)
    return target


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError:  # cut short by a full disk, say
        _compile(path)
        return ctypes.CDLL(str(path))


def _key() -> str:
    """What the result depends on: the source, and the processor, whose instructions are used."""
    parts = (
        *(source.read_text() for source in SOURCES),
        str((FLAGS, TUNING, WIDE)),
        sys.platform,
        platform.machine(),
        _processor(),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    with suppress(OSError, StopIteration), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        return next(line for line in lines if line.startswith(("flags", "Features")))
    return platform.node()


def _folder() -> Path:
    """A folder of the user's own: what lies there is loaded as code."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "cockpit"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.stat()
        if os.access(folder, os.W_OK) and found.st_uid == os.getuid() and not found.st_mode & OTHERS:
            return folder
    return Path(tempfile.mkdtemp(prefix="cockpit-"))  # this process only


def _trusted(path: Path) -> bool:
    """Whether it is ours and whole: the loader ends the process on a file that was cut short."""
    with suppress(OSError):
        found = path.stat()
        mine = found.st_uid == os.getuid() and not found.st_mode & OTHERS
        return mine and path.with_suffix(SUM).read_text(errors="replace") == _digest(path)
    return False


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _placed(part: Path, target: Path) -> None:
    """Put a file where others load it, once all of it is on the disk; its checksum beside it."""
    part.chmod(0o700)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    digest = _digest(part)
    part.replace(target)
    with whole(target.with_suffix(SUM)) as beside:
        beside.write_text(digest)


def _compile(target: Path) -> None:
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)
    if compiler is None:
        raise LookupError("there is no C compiler (cc, gcc or clang)")
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory(prefix="cockpit-") as folder:
            for extra in TUNING:
                problem = _linked([compiler, *FLAGS, *extra], Path(folder), part)
                if problem is None:
                    _placed(part, target)
                    _tidy(target)
                    return
        raise LookupError(f"{compiler} failed: {(problem or 'it said nothing')[:300]}")
    finally:
        part.unlink(missing_ok=True)


def _tidy(newest: Path) -> None:
    """Remove what earlier versions compiled, if it was not loaded for long; who has loaded it keeps it."""
    for other in newest.parent.glob("loops-*.so"):
        with suppress(OSError):
            if other != newest and time.time() - other.stat().st_atime > UNUSED:
                other.unlink()
                other.with_suffix(SUM).unlink(missing_ok=True)


def _linked(command: list[str], folder: Path, target: Path) -> str | None:
    """Compile all sources side by side and link them; what the compiler said if it failed."""

    def run(*arguments: str, wide: bool = False) -> subprocess.CompletedProcess[str]:
        given = [*(word for word in command if not wide or word != NARROW), *arguments]
        return subprocess.run(given, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def compiled(source: Path, made: str) -> subprocess.CompletedProcess[str]:
        return run("-c", str(source), "-o", made, wide=source.stem.startswith(WIDE))

    code = [source for source in SOURCES if source.suffix == ".c"]
    objects = [str(folder / f"{source.stem}.o") for source in code]
    with ThreadPoolExecutor(len(code)) as pool:
        done = list(pool.map(compiled, code, objects))
    if not any(job.returncode for job in done):
        done.append(run(*objects, "-o", str(target), "-lm"))
    return next((job.stderr.strip() for job in done if job.returncode), None)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, LookupError) else f"{type(error).__name__}: {error}"
