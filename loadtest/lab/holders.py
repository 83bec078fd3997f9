"""Who holds the memory: what a server says of itself, laid over what the kernel counts."""

LAYERS = (("live", "live in requests"), ("blocks", "blocks beyond that"), ("pools", "pools"),
          ("connections", "libmicrohttpd's connections"), ("store", "SQLite"),
          ("free", "free in malloc"), ("rest", "other"))


def sqlite(memory):
    return memory.get("modules", {}).get("store", {}).get("sqlite_memory_bytes", 0)


def live(memory):
    """What requests and the store hold, by /debug/memory; of a program that has none, unknown: 0."""
    return memory["live_bytes"] + sqlite(memory) if memory else 0


def layers(memory, anonymous, connection_memory):
    """{layer: bytes} that make up `anonymous`. Blocks: idle, or lent and not filled. What is reserved
    but was never touched, and what malloc keeps on its books but has given back, holds no memory: so
    no layer is more than what those before it have left of the whole."""
    blocks = memory["depot"]["idle_bytes"]
    pools = connections = 0
    for worker in memory["workers"]:
        blocks += sum(worker.get("magazine", {}).get(k, 0) for k in ("idle_bytes", "lent_bytes"))
        pools += sum(pool["held_bytes"] for pool in worker["pools"].values())
        connections += worker["connections"]
    blocks -= min(blocks, memory["live_bytes"]) if memory["alloc"] == "arena" else 0
    held = {"live": memory["live_bytes"], "pools": pools, "blocks": blocks,
            "connections": connections * connection_memory, "store": sqlite(memory),
            "free": memory["mallinfo2"]["fordblks"]}
    result, left = {"anonymous": anonymous}, anonymous
    for name, most in held.items():
        result[name] = min(most, left)
        left -= result[name]
    return result | {"rest": left}
