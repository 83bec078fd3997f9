"""What the kernel knows about a process: CPU time, memory, faults. Read from outside, so that the
process does nothing for it."""

import os
import time
from dataclasses import dataclass

PAGE = os.sysconf("SC_PAGE_SIZE")

_COARSE = 6  # CLOCK_MONOTONIC_COARSE, which Python does not name: its resolution is the kernel's tick
TICK_NS = round(time.clock_getres(_COARSE) * 1e9)
TICKS_ENOUGH = 100  # samples, for a share that is right to some hundredths

# Clock ids of a foreign process (clock_getcpuclockid(3)): the pid, inverted, over a kind.
_PROF, _VIRT, _SCHED = 0, 1, 2


@dataclass
class Cpu:
    """CPU time of all threads. `total_ns` comes from the scheduler and is exact. The split into user
    and system is sampled by the kernel at its tick (CONFIG_HZ, four to ten times finer than the
    hundredths of a second in /proc/PID/stat), so it is a share of `total_ns`, with an error."""

    total_ns: int
    sampled_ns: int
    sampled_user_ns: int

    def since(self, before):
        return Cpu(self.total_ns - before.total_ns, self.sampled_ns - before.sampled_ns,
                   self.sampled_user_ns - before.sampled_user_ns)

    def user_ns(self):
        """None where there are too few samples to tell."""
        if self.sampled_ns < TICKS_ENOUGH * TICK_NS:
            return None
        return self.total_ns * self.sampled_user_ns / self.sampled_ns


def total(cpus):
    parts = [(cpu.total_ns, cpu.sampled_ns, cpu.sampled_user_ns) for cpu in cpus]
    return Cpu(*map(sum, zip(*parts)))


def cpu(pid):
    def clock(kind):
        return time.clock_gettime_ns((~pid << 3) | kind)
    return Cpu(clock(_SCHED), clock(_PROF), clock(_VIRT))


def cpu_ns(pid):
    return time.clock_gettime_ns((~pid << 3) | _SCHED)


def _tasks(pid, name):
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/{name}", encoding="ascii", errors="replace") as f:
                yield f.read()
        except (FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            pass


def occupied_ns(pid):
    """How long its threads have run, or would have if a processor had been free."""
    return sum(int(ns) for text in _tasks(pid, "schedstat") for ns in text.split()[:2])


def sleeps(pid):
    """Whether no thread of it runs or wants to."""
    return all(text.rpartition(")")[2].split()[0] == "S" for text in _tasks(pid, "stat"))


def mapped(pid):
    """The files that it has mapped."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as f:
        return {line.split(maxsplit=5)[5].rstrip("\n") for line in f if "/" in line}


def environment(pid):
    with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as f:
        return dict(pair.partition("=")[::2] for pair in f.read().split("\0") if pair)


def resident(pid):
    """(resident, anonymous) bytes from statm: a microsecond to read, exact to some hundred kB."""
    with open(f"/proc/{pid}/statm", "rb") as f:
        _, rss, shared = f.read().split()[:3]
    return int(rss) * PAGE, (int(rss) - int(shared)) * PAGE


def reset_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as f:
        f.write("5")


def peak(pid):
    """The most that was resident since reset_peak, in bytes."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"/proc/{pid}/status has no VmHWM: it has ended")


def minor_faults(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        return int(f.read().rpartition(")")[2].split()[7])


def anonymous(pid):
    """Anonymous memory that is really held: what is only lazily freed counts as given back. Exact;
    a walk of the page tables under a lock, so not for a server under load."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        kb = {line.split(":")[0]: int(line.split()[1]) for line in f if line.endswith("kB\n")}
    return (kb["Anonymous"] - kb.get("LazyFree", 0)) * 1024


def busy_ns(cpus):
    """CPU time that these processors have spent on anything but idling; in ten-millisecond steps."""
    total = 0
    with open("/proc/stat", encoding="ascii") as f:
        for line in f:
            name, *ticks = line.split()
            if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
                user, nice, system, _, _, irq, softirq, steal = map(int, ticks[:8])
                total += user + nice + system + irq + softirq + steal
    return total * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
