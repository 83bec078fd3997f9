"""Where the figures come from: whatever has to be the same before two reports may be compared."""

import ctypes
import json
import mmap
import os
import platform
import resource
import subprocess
import time
from pathlib import Path


def _first_line(path):
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()[0].strip()
    except (OSError, IndexError):
        return None


def _field(path, name):
    try:
        for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition("=" if "=" in line.split(":")[0] else ":")
            if key.strip() == name:
                return value.strip().strip('"')
    except OSError:
        pass
    return None


def version_of(*command):
    """What a command says, or None where it is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout or done.stderr).strip() or None


def _build_options(build):
    try:
        options = json.loads((Path(build) / "meson-info/intro-buildoptions.json").read_text())
    except (OSError, ValueError):
        return {}
    wanted = ("buildtype", "optimization", "debug", "b_ndebug", "b_lto", "b_sanitize", "c_args")
    return {o["name"]: o["value"] for o in options if o["name"] in wanted}


def revision():
    here = Path(__file__).resolve().parent
    commit = version_of("git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12")
    return None if commit is None or "fatal" in commit else commit


def page_fault_ns():
    """What memory that is new costs, a page: from 200 ns to 10 us, by the machine. An allocator that gives
    memory back pays it again and again."""
    size, best = 16 << 20, None
    for _ in range(3):
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
            area.madvise(mmap.MADV_NOHUGEPAGE)
            first = (ctypes.c_char * size).from_buffer(area)
            start = time.thread_time_ns()
            ctypes.memset(first, 1, size)
            spent = (time.thread_time_ns() - start) / (size // mmap.PAGESIZE)
            best = min(spent, best or spent)
            del first
    return round(best)


def describe(bench):
    wrk = version_of("wrk", "-v")
    return {
        "os": _field("/etc/os-release", "PRETTY_NAME"),
        "kernel": platform.release(),
        "cpu": _field("/proc/cpuinfo", "model name"),
        "processors": os.cpu_count(),
        "server_processor": bench.server_cpu, "client_processor": bench.client_cpu,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "transparent_hugepages": _first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "page_fault_ns": page_fault_ns(),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "python": platform.python_version(),
        "wrk": wrk.split(" Copyright")[0] if wrk else None,
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "load_average": os.getloadavg()[0],
        "revision": revision(),
        "build": _build_options(bench.build),
    }


def warnings(environment):
    """What a reader has to know before trusting the figures."""
    build, said = environment["build"], []
    if build.get("b_sanitize", "none") not in ("none", ""):
        said.append(f"built with the sanitizer {build['b_sanitize']}: the figures mean nothing")
    if build.get("optimization") in ("0", "g") or build.get("b_ndebug") == "false":
        said.append("not a release build: the figures are of checks as much as of the server")
    if environment["server_processor"] is None:
        said.append("one processor for server and client: they compete")
    return said
