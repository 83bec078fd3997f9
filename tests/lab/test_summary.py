"""From slots to a report: pairs, exclusions, words."""
import pytest
import reports

from lab import holders, metrics, scenario, summary


def summarise(slots, name="echo"):
    return summary.scenario(scenario.load(name), slots, reports.COUNTED)


def test_pairs_cancel_what_both_suffered():
    ratio = summarise(reports.slots(ratio=0.7))["ratio"]["cpu_us_per_request"]
    assert (ratio["median"], ratio["lo"], ratio["hi"]) == pytest.approx((0.7, 0.7, 0.7))
    assert ratio["verdict"] == "better" and ratio["n"] == 6


def test_arms_are_medians():
    arms = summarise(reports.slots())["arms"]
    assert arms["malloc"]["cpu_us_per_request"] == pytest.approx(105)
    assert arms["malloc"]["p999_us"] is None


def test_an_invalid_slot_is_counted_and_takes_its_pair_out():
    slots = reports.slots()
    slots[1] = reports.slot("arena", 0, valid=False, cpu_us_per_request=1.0)
    item = summarise(slots)
    assert item["invalid"] == 1
    assert item["ratio"]["cpu_us_per_request"]["n"] == 5
    assert item["ratio"]["cpu_us_per_request"]["lo"] == pytest.approx(0.7)


def test_a_pair_that_was_run_again_replaces_the_first():
    slots = reports.slots()
    slots[1]["valid"] = False
    slots += [reports.slot("malloc", 0, repeat=True, cpu_us_per_request=200.0),
              reports.slot("arena", 0, repeat=True, cpu_us_per_request=100.0)]
    ratio = summarise(slots)["ratio"]["cpu_us_per_request"]
    assert ratio["n"] == 6 and ratio["lo"] == pytest.approx(0.5)


def test_halves_of_two_runs_are_no_pair():
    slots = reports.slots()
    slots[1] = reports.invalid(slots[1])
    slots += [reports.invalid(reports.slot("malloc", 0, repeat=True)), reports.slot("arena", 0, repeat=True)]
    item = summarise(slots)
    assert item["ratio"]["cpu_us_per_request"]["n"] == 5
    assert not any(slot["pair"] == 0 for slot in summary.used(slots))


def test_against_plain_a_block_is_one_comparison():
    ratio = summarise(reports.slots())["others"]["plain"]["ratio"]["cpu_us_per_request"]
    assert ratio["n"] == 3 and ratio["confidence"] == 0.75
    assert ratio["median"] == pytest.approx(105 / 101)


def test_other_arms_are_held_against_their_own_reference():
    slots = reports.slots()
    slots += [reports.slot("jemalloc", None, block, cpu_us_per_request=90.0) for block in range(3)]
    slots += [reports.slot("malloc-no-pool", None, block, cpu_us_per_request=210.0) for block in range(3)]
    others = summarise(slots)["others"]
    assert others["jemalloc"]["over"] == "arena" and others["malloc-no-pool"]["over"] == "malloc"
    assert others["jemalloc"]["ratio"]["cpu_us_per_request"]["median"] == pytest.approx(105 * 0.7 / 90)
    assert others["malloc-no-pool"]["ratio"]["cpu_us_per_request"]["median"] == pytest.approx(0.5)
    assert "mimalloc" not in others


def test_calls_are_counted_not_sampled():
    item = summarise(reports.slots())
    assert item["arms"]["arena"]["malloc_calls_per_request"] == 4
    ratio = item["ratio"]["malloc_calls_per_request"]
    assert ratio["counted"] and ratio["verdict"] == "better"


def test_where_the_client_is_the_limit_its_figures_decide_nothing():
    slots = reports.slots()
    for slot in slots:
        slot["client_bound"] = slot["arm"] == "arena"
    ratio = summarise(slots)["ratio"]
    assert ratio["requests_per_second"]["verdict"] == ratio["p99_us"]["verdict"] == "client-bound"
    assert ratio["cpu_us_per_request"]["verdict"] == "better"


@pytest.mark.parametrize("peak, retained, outcome", [
    (1 << 20, 0, "arena"), (99 << 20, 90 << 20, "malloc"), (99 << 20, 0, "mixed"),
    (8 << 20, 2 << 20, "equivalent"), (8 << 20, 0, "arena"), (99 << 20, 2 << 20, "malloc"),
])
def test_the_outcome_is_of_the_primary_metrics(peak, retained, outcome):
    slots = reports.slots()
    for slot in slots:
        if slot["arm"] == "arena":
            slot["metrics"] |= {"peak_rss_bytes": peak, "retained_bytes": retained}
    assert summarise(slots, "spike")["outcome"] == outcome


def test_no_valid_pair_is_inconclusive():
    slots = [slot | {"valid": slot["arm"] != "arena"} for slot in reports.slots()]
    item = summarise(slots)
    assert item["ratio"] == {} and item["outcome"] == "inconclusive"


def test_the_tally_counts_every_verdict_once():
    report = reports.report()
    found = summary.tally(report)
    assert sum(map(len, found.values())) == sum(len(item["ratio"]) for item in report["scenarios"])


def memory(alloc, live, idle, lent, pool, connections=0, store=0, free=0):
    return {"alloc": alloc, "live_bytes": live, "depot": {"idle_bytes": 0}, "mallinfo2": {"fordblks": free},
            "modules": {"store": {"sqlite_memory_bytes": store}}, "workers": [
        {"magazine": {"idle_bytes": idle, "lent_bytes": lent}, "connections": connections,
         "pools": {"requests": {"held_bytes": pool}}}]}


@pytest.mark.parametrize("said, expected", [
    (memory("arena", 300, 50, 400, 100), {"live": 300, "pools": 100, "blocks": 150, "rest": 450}),
    (memory("malloc", 300, 50, 0, 100), {"live": 300, "pools": 100, "blocks": 50, "rest": 550}),
    (memory("arena", 5000, 50, 6000, 100), {"live": 1000, "pools": 0, "blocks": 0, "rest": 0}),
    (memory("malloc", 100, 0, 0, 100, 2, 60, 99), {"live": 100, "pools": 100, "connections": 40, "store": 60,
                                                  "free": 99, "rest": 601}),
    (memory("malloc", 100, 0, 0, 100, 2, 60, 9999), {"live": 100, "pools": 100, "connections": 40, "store": 60,
                                                    "free": 700, "rest": 0}),
])
def test_the_layers_make_up_the_whole(said, expected):
    layers = holders.layers(said, 1000, 20)
    assert layers == reports.LAYERS | expected | {"anonymous": 1000}


def test_what_the_store_holds_is_live_and_what_cannot_be_asked_is_unknown():
    assert holders.live(memory("malloc", 100, 0, 0, 0, store=60)) == 160 and holders.live(None) == 0


def test_open_connections_share_what_there_is():
    item = summarise(reports.slots(), "open")
    assert item["open"]["arena"]["connections"] == pytest.approx((40 << 20) / 5000)


def test_the_ratio_of_a_pair_is_the_median_of_its_turns():
    cpu, of_turns = metrics.BY_NAME["cpu_us_per_request"], metrics.CPU_OF_TURNS
    base = {cpu.name: 100.0, of_turns: [80.0, 100.0, 120.0, 100.0]}
    disturbed = {cpu.name: 300.0, of_turns: [40.0, 50.0, 60.0, 1050.0]}
    assert metrics.of_pair(cpu, disturbed, base) == (50.0, 100.0)
    assert metrics.of_pair(cpu, {cpu.name: 70.0, of_turns: [70.0]}, base) == (70.0, 100.0)
    assert metrics.of_pair(cpu, {cpu.name: 70.0}, base) == (70.0, 100.0)
    assert metrics.of_pair(cpu, disturbed | {of_turns: [None, 50.0, 60.0, 55.0]}, base)[0] == 50.0
    assert metrics.of_pair(metrics.BY_NAME["user_us_per_request"], {"user_us_per_request": 3.0}, {}) == (3.0, None)
