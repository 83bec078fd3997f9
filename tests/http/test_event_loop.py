"""The event loop under as many events at once as libmicrohttpd asks for, and near that number."""
import signal

import pytest

BATCH = 128  # events that libmicrohttpd asks for in one call


@pytest.mark.parametrize("count", [BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 3 * BATCH])
def test_all_that_ask_at_once_are_answered(server, count):
    """The process is stopped while they ask, so that they are ready at the same moment; nothing else
    happens then, and no time-out is near. A loop that waits with the events in hand serves none."""
    one = server("--threads", "1", "--idle-timeout", "60m", "--header-timeout", "60m")
    connections = [one.connect() for _ in range(count)]
    for connection in connections:
        assert connection.request("GET", "/json").status == 200
    for _ in range(3):
        one.signal(signal.SIGSTOP)
        for connection in connections:
            connection.start("GET", "/json")
        one.signal(signal.SIGCONT)
        for connection in connections:
            assert connection.read().status == 200
