"""What makes a slot invalid. Each gate names what it looked at and shows its numbers; a slot that
fails one is counted in the report and never used. Pure functions of what the slot found out."""

from dataclasses import asdict, dataclass

from .arm import OTHER_MALLOCS

# Connections wait in a busy client too; a server's queue may be this much shorter or longer.
LITTLE_TOLERANCE = 0.10
DURATION_TOLERANCE = 0.02
LATE_SECONDS, LATE_SHARE = 0.5, 0.1  # of the time since the load
PLANNED_SHARE = 0.99  # of the rate
LATE_CLIENT_US = 1000
CLIENT_BUSY = 0.90  # of its processor
SERVER_BUSY = 0.90
NOISY_HANDOVER = 2.5  # times the fastest of the run
NOISY_OTHERS = 0.15  # processors used by anything but the server and its client


@dataclass
class Gate:
    name: str
    passed: bool
    said: str


def client_bound(client_share, server_share):
    """The client was at its limit and the server was not."""
    return client_share > CLIENT_BUSY and server_share < SERVER_BUSY


def errors(client):
    return Gate("errors", client["errors"] == 0 and client["unrecorded"] == 0,
                f"{client['errors']} socket errors, {client['unrecorded']} without a latency")


def status(client):
    wrong = client["wrong_status"]
    return Gate("status", wrong == 0, f"{wrong} answers had another status than is due")


def content(client):
    different = client.get("different", 0)
    return Gate("content", different == 0, f"{different} answers differ from the first")


def served(client):
    return Gate("served", client["requests"] > 0, f"{client['requests']} requests answered")


def counts(client, server_requests, cut_off):
    """Answers that the client did not wait for at the end, `cut_off` at most, are surplus."""
    surplus = server_requests - client["requests"]
    return Gate("counts", 0 <= surplus <= cut_off,
                f"the server counts {server_requests}, the client {client['requests']}")


def duration(client, own_seconds, start_up):
    """wrk's clock may jump; ours does not. `start_up`: what a client needs beside its load."""
    excess = own_seconds - client["seconds"]
    slack = DURATION_TOLERANCE * own_seconds
    return Gate("duration", -slack <= excess <= slack + start_up,
                f"the client says {client['seconds']:.2f} s, the lab {own_seconds:.2f} s")


def plan(client, load):
    """At a constant rate: what was planned has come, and in time, so that the latencies are those of
    that rate and not of a full server or of a busy client."""
    rate, late = client["requests"] / client["seconds"], client["late_us"]
    return Gate("plan", rate >= PLANNED_SHARE * load.rate and late <= LATE_CLIENT_US,
                f"{rate:,.0f} of {load.rate:,.0f} requests a second came, of which the client sent 99 % at "
                f"most {late:,} us late")


def littles_law(client, mean_us, max_us, client_occupied):
    """In a closed loop as many requests are under way as there are connections: rate times mean
    latency. Fewer, if connections died or stood still. Not counted are the last request of each, and
    the time that answers wait in the client while it runs or waits for its processor."""
    rate = client["requests"] / client["seconds"]
    under_way = rate * mean_us / 1e6
    n = client["connections"]
    cut_off = max(0.0, 1 - max_us / 1e6 / client["seconds"])
    least = n * cut_off * (1 - min(client_occupied, 1)) * (1 - LITTLE_TOLERANCE)
    return Gate("little", least <= under_way <= n * (1 + LITTLE_TOLERANCE),
                f"{under_way:.1f} requests under way on {n} connections, at least {least:.1f} were due")


def silence(marks, due):
    """Every look at the idle server was taken in time: memory comes back by the second."""
    late = [mark["t"] - t for mark, t in zip(marks, due)]
    in_time = all(by <= LATE_SECONDS + LATE_SHARE * t for by, t in zip(late, due))
    return Gate("silence", len(marks) == len(due) and in_time,
                f"{len(marks)} of {len(due)} samples of the idle server, at most "
                f"{max(late, default=0):.2f} s late")


def allocator(arm, version):
    """Read from the running server, not from the command that started it."""
    wrong = {k: (version or {}).get(k) for k, v in arm.in_force.items() if (version or {}).get(k) != v}
    return Gate("allocator", not wrong, f"/version says {wrong or arm.in_force or 'nothing, as it should'}")


def malloc_in_force(arm, mapped, environment):
    """`mapped`: the files that the running process has mapped; `environment`: its own. A library that
    could not be preloaded is only a line on stderr to the dynamic linker."""
    found = sorted({name for name in OTHER_MALLOCS for path in mapped if name in path})
    due = sorted(name for name in OTHER_MALLOCS if arm.library and name in arm.library)
    unset = [name for name, value in arm.env if environment.get(name) != value]
    return Gate("malloc", found == due and not unset,
                f"{len(mapped)} files are mapped, among them {', '.join(found) or 'no other malloc'}" +
                "".join(f"; {name} is {environment.get(name)!r}" for name in unset))


def malloc_used(arm, memory):
    """Where another malloc serves, glibc's has nothing; where none does, it has something."""
    held = memory["mallinfo2"]["arena"] + memory["mallinfo2"]["hblkhd"]
    return Gate("malloc used", (held == 0) == bool(arm.library), f"glibc's malloc holds {held} bytes")


def ledger(before, after):
    """What requests hold, by the server's own books: they are gone."""
    return Gate("ledger", after <= before, f"{after} bytes are live at rest, {before} before")


def ended(exit_status):
    return Gate("exit", exit_status == 0, f"exit status {exit_status} after SIGTERM")


def verdict(gates):
    """(valid, the gates as dicts)"""
    return all(gate.passed for gate in gates), [asdict(gate) for gate in gates]
