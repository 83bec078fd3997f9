#!/usr/bin/python3
"""Installs the build into a temporary directory and uses the library as a stranger would.

Arguments: the build directory, the C compiler, the source directory. What is checked: a program
outside the tree builds with pkg-config's flags and runs, against the shared and the static library;
the shared library exports exactly what the public headers declare; headers and page are there.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

WORDS = ["what", "dies", "together", "lives", "together"]


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
    return done.stdout


def only(pattern):
    found = glob.glob(pattern, recursive=True)
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


def declared(headers):
    """The functions and variables that the headers declare, without what they define inline."""
    names = set()
    for header in headers:
        with open(header, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
        text = re.sub(r"static inline[^{;]*\{.*?\n\}", "", text, flags=re.DOTALL)
        text = re.sub(r"\{[^{}]*\}", "", re.sub(r"^#.*$", "", text, flags=re.MULTILINE))
        names.update(re.findall(r"^[a-z][\w \*]*?\b(mem_\w+)\(", text, re.MULTILINE))
        names.update(re.findall(r"^extern [\w \*]*?\b(mem_\w+)(?:\[[^]]*\])?;", text, re.MULTILINE))
    return names


def main():
    build, compiler, source = sys.argv[1:]
    compiler = compiler.split()
    with tempfile.TemporaryDirectory() as directory:
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", directory)
        pkgconfig = os.path.dirname(only(f"{directory}/**/slatemem.pc"))
        shared = only(f"{directory}/**/libslatemem.so")
        static = only(f"{directory}/**/libslatemem.a")
        only(f"{directory}/**/man3/slatemem.3")
        headers = glob.glob(f"{directory}/**/include/slate/*.h", recursive=True)
        assert len(headers) >= 3, headers

        env = dict(os.environ, PKG_CONFIG_LIBDIR=pkgconfig, PKG_CONFIG_SYSROOT_DIR=directory)
        cflags = run("pkg-config", "--cflags", "slatemem", env=env).split()
        libs = run("pkg-config", "--libs", "slatemem", env=env).split()
        example = os.path.join(source, "tests", "install", "example.c")
        strict = ["-Wall", "-Wextra", "-Werror"]
        run(*compiler, *strict, *cflags, example, *libs, "-o", "shared", cwd=directory)
        run(*compiler, *strict, *cflags, example, static, "-pthread", "-o", "static", cwd=directory)
        path = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(shared))
        for program, env in (("shared", path), ("static", dict(os.environ))):
            assert run(f"{directory}/{program}", env=env).split() == WORDS

        exported = {line.split()[-1] for line in
                    run("nm", "-D", "--defined-only", shared).splitlines()}
        assert exported == declared(headers), \
            f"exported, declared: {sorted(exported ^ declared(headers))}"
    print(f"{len(exported)} functions and variables are exported, all of them public")


if __name__ == "__main__":
    main()
