"""Fixtures of the HTTP suite. SLATE_BIN, SLATE_ALLOC and SLATE_TREE (set by tests/run) say which
program is tested, with which allocator, and how it was built."""
import pytest

import documents
from process import ALLOC, SANITIZED, Server


def pytest_report_header():
    return f"slate: alloc {ALLOC}{', sanitized' if SANITIZED else ''}"


def pytest_configure(config):
    config.addinivalue_line("markers", "arena: what only arenas promise")
    config.addinivalue_line("markers", "resident: measures memory, which sanitizers inflate")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("arena") and ALLOC != "arena":
            item.add_marker(pytest.mark.skip(reason="only arenas promise this"))
        if item.get_closest_marker("resident") and SANITIZED:
            item.add_marker(pytest.mark.skip(reason="a sanitizer's own memory would be measured"))


@pytest.fixture
def server():
    """Starts servers, with the flags given; each is stopped and checked after the test."""
    started = []

    def start(*flags, **keywords):
        started.append(Server(*flags, **keywords))
        return started[-1]

    yield start
    failures = []
    for one in started:
        try:
            one.stop()
        except AssertionError as failure:
            failures.append(str(failure))
        finally:
            one.release()
    assert not failures, "\n".join(failures)


@pytest.fixture(scope="module")
def module_server(request):
    """With default flags, or those that the module names in FLAGS."""
    one = Server(*getattr(request.module, "FLAGS", ()))
    try:
        yield one
        one.stop()
    finally:
        one.process.kill()
        one.process.wait()
        one.release()


@pytest.fixture
def shared(module_server):
    """One server for a module's tables of small requests; it must have survived each."""
    yield module_server
    module_server.close_connections()
    module_server.check()
    assert module_server.process.poll() is None, "the server has ended"


@pytest.fixture(scope="module", params=list(documents.URIS))
def store_server(request, tmp_path_factory):
    """One server with a document store for a module, per kind of store."""
    one = documents.start(request.param, tmp_path_factory.mktemp("store"),
                          *getattr(request.module, "FLAGS", ()))
    try:
        yield one
        one.stop()
    finally:
        one.process.kill()
        one.process.wait()
        one.release()


@pytest.fixture
def db(store_server):
    """A collection of a test's own; its server must have survived the test."""
    yield documents.Documents(store_server)
    store_server.check()
    assert store_server.process.poll() is None, "the server has ended"


@pytest.fixture(params=list(documents.URIS))
def store(request, tmp_path, server):
    """Starts servers on one store, one after the other or side by side."""
    def start(*flags, **keywords):
        return server("--db", documents.uri(request.param, tmp_path), *flags, **keywords)
    return start
