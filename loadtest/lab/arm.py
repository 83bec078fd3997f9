"""Arms: the programs and settings that are compared. A row here is an arm everywhere."""

import os
from dataclasses import dataclass, field, replace

from .store import INDEXES


@dataclass(frozen=True)
class Arm:
    name: str
    program: str  # below the build directory
    flags: tuple = ()
    in_force: dict = field(default_factory=dict)  # what /version has to say of the running server
    path: str | None = None  # asks for this instead of the scenario's path
    env: tuple = ()

    @property
    def is_slate(self):
        return self.program == SLATE

    def command(self, build, scenario, store=None):
        """`store`: the path of its database, if it has one."""
        flags = ["--listen", "127.0.0.1:0", "--threads", str(scenario.threads)]
        if self.is_slate:
            flags += ["--admin", "127.0.0.1:0", "--db", f"sqlite:{store}" if store else "off",
                      *(INDEXES if store else ()), *scenario.flags]
        return [os.path.join(build, self.program), *flags, *self.flags]

    def request(self, request):
        """What this arm is asked instead of `request`."""
        return replace(request, path=self.path) if self.path else request

    def environment(self):
        """The lab's own, less what would change the server. The sum of flags and environment is
        equally long for every arm: where the stack begins can change how fast a program is."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("SLATE_", "MALLOC_", "LD_", "GLIBC_"))}
        env.update(self.env)
        env["LAB_PAD"] = "x" * (64 - sum(len(flag) for flag in self.flags))
        return env


SLATE = "handlers/slate"
PLAIN = "loadtest/plain"

MALLOC = Arm("malloc", SLATE, ("--alloc", "malloc"), {"alloc": "malloc"})
ARENA = Arm("arena", SLATE, ("--alloc", "arena"), {"alloc": "arena"})
YARDSTICK = Arm("plain", PLAIN)
STATIC = Arm("static", PLAIN, path="/static")
