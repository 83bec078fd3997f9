"""Arms: the programs and settings that are compared. A row here is an arm everywhere."""

import os
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

from .store import INDEXES

SLATE = "handlers/slate"
PLAIN = "loadtest/plain"
LIBRARIES = Path("/usr/lib")
PADDED = 256  # bytes, for what arms have on the command line and in the environment


@dataclass(frozen=True)
class Arm:
    name: str
    program: str  # below the build directory
    flags: tuple = ()
    in_force: dict = field(default_factory=dict)  # what /version has to say of the running server
    path: str | None = None  # asks for this instead of the scenario's path
    env: tuple = ()  # of pairs
    library: str | None = None  # a malloc that is loaded before glibc's, by its file's name
    package: str | None = None  # Debian's, that brings it
    trims: bool = False  # gives back what it can once the load has ended
    over: str | None = None  # the arm that it is held against: the report shows over / this
    about: str = ""  # in a report
    needs_port: bool = False  # it cannot choose one for itself
    count_signal: int = signal.SIGUSR1  # makes it print how many requests it has answered,
    count_path: str | None = None  # or where it says so

    @property
    def is_slate(self):
        return self.program == SLATE

    def missing(self):
        """The package that has to be installed first, or None."""
        if self.library and not list(LIBRARIES.glob(f"*/{self.library}")):
            return self.package
        return None

    def command(self, build, scenario, store=None):
        """`store`: the path of its database, if it has one."""
        flags = ["--listen", "127.0.0.1:0", "--threads", str(scenario.threads)]
        if scenario.body_limit:
            flags += ["--body-limit", scenario.body_limit]
        if self.is_slate:
            flags += ["--admin", "127.0.0.1:0", "--db", f"sqlite:{store}" if store else "off",
                      *(INDEXES if store else ()), *scenario.flags]
        return [os.path.join(build, self.program), *flags, *self.flags]

    def request(self, request):
        """What this arm is asked instead of `request`."""
        return replace(request, path=self.path) if self.path else request

    def environment(self, preloaded=()):
        """The lab's own, less what would change the server. `preloaded`: libraries of the lab's. The
        sum of flags and environment is equally long for every arm: where the stack begins can change
        how fast a program is."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("SLATE_", "MALLOC_", "LD_", "GLIBC_", "MIMALLOC_", "TCMALLOC_"))}
        own = dict(self.env)
        libraries = [*([self.library] if self.library else []), *preloaded]
        if libraries:
            own["LD_PRELOAD"] = ":".join(libraries)
        length = sum(map(len, self.flags)) + sum(len(k) + len(v) + 2 for k, v in own.items())
        return env | own | {"LAB_PAD": "x" * max(0, PADDED - length)}


def _slate(name, alloc, *flags, **more):
    in_force = {"alloc": alloc, "pool": True, "json_reader": "slate",
                "json_walk": alloc == "malloc"} | more.pop("in_force", {})
    return Arm(name, SLATE, ("--alloc", alloc, *flags), in_force, **more)


def _preloaded(name, library, package, about, **more):
    return _slate(name, "malloc", library=library, package=package, over="arena", about=about, **more)


MALLOC = _slate("malloc", "malloc", about="slate on glibc's malloc")
ARENA = _slate("arena", "arena", about="slate on its arenas")
YARDSTICK = Arm("plain", PLAIN, over="malloc",
                about="a straightforward libmicrohttpd and jansson program on malloc")
STATIC = Arm("static", PLAIN, path="/static", over="arena",
             about="the same program, with an answer that was made once")

# What malloc can be told or replaced by: is it arenas that win, or anything that is not glibc as it comes?
MALLOCS = (
    _slate("malloc-1-arena", "malloc", env=(("MALLOC_ARENA_MAX", "1"),), over="arena",
           about="glibc's malloc with one heap for all threads"),
    _slate("malloc-trim", "malloc", "--idle-trim", "on", trims=True, over="arena",
           about="glibc's malloc, told to give back (--idle-trim, and malloc_trim when the load has ended)"),
    _preloaded("jemalloc", "libjemalloc.so.2", "libjemalloc2", "jemalloc 5 preloaded"),
    _preloaded("jemalloc-thread", "libjemalloc.so.2", "libjemalloc2",
               "jemalloc with a thread that gives back (background_thread)",
               env=(("MALLOC_CONF", "background_thread:true"),)),
    _preloaded("mimalloc", "libmimalloc.so.2.0", "libmimalloc2.0", "mimalloc 2 preloaded"),
    _preloaded("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4",
               "tcmalloc of gperftools preloaded"),
)

# What is not the allocator's doing: connection and request structs from pools, and the JSON reader.
# And what is a part of it: that a tree is forgotten, where malloc's has to be walked to be freed.
FACTORS = tuple(
    _slate(f"{alloc}-{name}", alloc, *flags, in_force=in_force, over=alloc,
           about=f"slate on {'its arenas' if alloc == 'arena' else alloc}, {about}")
    for name, allocs, flags, in_force, about in (
        ("no-pool", ("malloc", "arena"), ("--pool", "off"), {"pool": False},
         "without pools for connections and requests"),
        ("jansson", ("malloc", "arena"), ("--json-reader", "jansson"), {"json_reader": "jansson"},
         "read by jansson's parser"),
        ("walk", ("arena",), ("--json-walk", "on"), {"json_walk": True},
         "whose trees are walked before the reset, as malloc's must be"))
    for alloc in allocs)

MORE = {arm.name: arm for arm in (*MALLOCS, *FACTORS)}
ALL = {arm.name: arm for arm in (MALLOC, ARENA, YARDSTICK, STATIC)} | MORE
OTHER_MALLOCS = ("jemalloc", "mimalloc", "tcmalloc")  # as they stand in the names of libraries
