"""The layers: what each folder of the source may know."""
import os
import re

from process import ROOT

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')


def sources(folder):
    for path, _, names in os.walk(os.path.join(ROOT, folder)):
        for name in names:
            if name.endswith((".c", ".h")):
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    yield os.path.join(path, name), COMMENT.sub(" ", file.read())


def includes(text):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', text, re.MULTILINE)


def test_alloc_knows_libc_only():
    found = list(sources("alloc"))
    assert found
    for path, text in found:
        for name in includes(text):
            assert not re.search(r"microhttpd|jansson|server/|handlers/|slate\.h", name), (path, name)


def test_the_server_knows_no_handler():
    for path, text in sources("server"):
        for name in includes(text):
            assert "handlers/" not in name, (path, name)


def test_handlers_know_no_library_and_no_allocator():
    found = [*sources("handlers"), *sources("plugins")]
    assert found
    for path, text in found:
        assert "microhttpd.h" not in includes(text), path
        code = STRING.sub('""', text)
        assert not re.search(r"\bMHD_\w+", code), path
        call = re.search(r"\b(malloc|calloc|realloc|free|strdup|strndup|asprintf|alloca"
                         r"|json_dumps|json_loads)\s*\(", code)
        assert not call, (path, call and call[0])


def test_few_files_translate_the_library():
    """And none of them is a header that others include."""
    users = [path for folder in ("alloc", "server", "handlers") for path, text in sources(folder)
             if "microhttpd.h" in includes(text)]
    assert 1 <= len(users) <= 8, users
    assert not any(path.endswith("slate.h") or "/json/" in path for path in users), users
