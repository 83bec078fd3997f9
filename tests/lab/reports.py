"""A made-up run, for what is done with slots afterwards."""
from lab import holders, scenario, summary

LAYERS = {name: 0 for name, _ in holders.LAYERS}


def slot(arm, pair, block=0, valid=True, repeat=False, client_bound=False, **metrics):
    values = {"cpu_us_per_request": 100.0, "user_us_per_request": 90.0, "requests_per_second": 9000.0,
              "p50_us": 300, "p99_us": 900, "p999_us": None, "peak_rss_bytes": 8 << 20,
              "retained_bytes": 2 << 20, "minor_faults_per_request": 0.5, "idle_cpu_us": 400.0} | metrics
    over = values["retained_bytes"]
    return {
        "arm": arm, "block": block, "pair": pair, "repeat": repeat, "valid": valid, "noisy": False,
        "gates": [{"name": "exit", "passed": True, "said": "exit status 0 after SIGTERM"}], "metrics": values,
        "client": {"requests": 18_000, "seconds": 2.0, "errors": 0, "wrong_status": 0, "wrk": None},
        "client_share": 0.5, "server_share": 0.95, "client_bound": client_bound, "others": 0.0,
        "handover_ns": [50.0, 52.0], "requests": 18_010, "baseline_bytes": 1 << 20, "stop": 2.1,
        "series": [[0.0, 1 << 20], [1.0, 7 << 20], [2.1, 7 << 20], [7.1, over + (1 << 20)]],
        "idle": [{"t": t, "anonymous": over + (1 << 20), "cpu_ns": 0} for t in (0.1, 1.0, 5.0)],
        "latency": {"raw": [[50, 300], [90, 500], [99, 900]], "corrected": [[50, 310], [90, 600], [99, 1500]]},
        "holders": LAYERS | {"anonymous": over + (1 << 20), "blocks": over, "rest": 1 << 20},
        "reclaimable_bytes": over // 2, "open": LAYERS | {"anonymous": 50 << 20, "connections": 40 << 20},
    }


def invalid(slot):
    gate = {"name": "exit", "passed": False, "said": "exit status <1> after SIGTERM"}
    return slot | {"valid": False, "gates": [gate]}


def slots(ratio=0.7, pairs=6):
    result = []
    for pair in range(pairs):
        drift = 1 + pair / 50  # common to both of a pair
        block = pair // 2
        result.append(slot("malloc", pair, block, cpu_us_per_request=100 * drift))
        result.append(slot("arena", pair, block, cpu_us_per_request=100 * drift * ratio,
                           retained_bytes=100_000))
    for block in range((pairs + 1) // 2):
        result.append(slot("plain", None, block, cpu_us_per_request=101.0))
    return result


COUNTED = {arm: {"calls": {"allocations": calls, "reallocations": 0.0, "frees": calls, "mappings": 0.0,
                           "unmappings": 0.0},
                 "live": [LAYERS | {"t": t / 10, "anonymous": 5 << 20, "live": 3 << 20, "blocks": 1 << 20,
                                    "pools": 1 << 18, "rest": 1 << 19} for t in range(5)]
                 if arm != "plain" else []}
           for arm, calls in (("malloc", 6000.0), ("arena", 4.0), ("plain", 6400.0))}


def report(**of_echo):
    items = [summary.scenario(scenario.load(name), of_echo.get(name) or slots(), COUNTED)
             for name in ("echo", "spike")]
    return {"schema": 1, "made": "2026-11-30T12:00:00Z", "seconds": 250.0, "command": "loadtest/run compare",
            "seed": 1, "pairs": 6, "scenarios": items,
            "environment": {"os": "Debian", "kernel": "6.1", "cpu": "<a CPU & more>", "processors": 2,
                            "libc": "glibc 2.36", "wrk": "wrk 4.1.0", "revision": "abc", "warnings": [],
                            "build": {"buildtype": "release"},
                            "versions": {"arena": {"alloc": "arena", "options": {"pool": "on"}}}}}


def suite():
    """With other arms, a scenario that holds connections, and constant rates."""
    more = [slot(arm, None, block, cpu_us_per_request=cpu, retained_bytes=kept << 20) for block in range(3)
            for arm, cpu, kept in (("jemalloc", 90.0, 9), ("mimalloc", 85.0, 12), ("malloc-trim", 101.0, 0))]
    made = report(echo=slots() + more, spike=slots(ratio=1.2) + more)
    item = scenario.load("open")
    held = [of | {"metrics": of["metrics"] | {"held_bytes_per_connection": 13_000.0}} for of in slots()]
    made["scenarios"].append(summary.scenario(item, held, COUNTED))
    for share, rate in ((0.3, 1000), (0.6, 2000)):
        paced = scenario.at_rate(scenario.load("echo"), share, rate)
        made["scenarios"].append(summary.scenario(paced, slots(), {}))
    return made
