#!/usr/bin/python3
"""Installs the build into a temporary directory and uses it as a stranger would.

Arguments: the build directory, the C compiler, the source directory. What is checked: a program
outside the tree builds with pkg-config's flags and runs, against the shared and the static library;
the shared library exports exactly what the public headers declare; headers and page are there; the
tutorial of plugins holds: its handler and the samples build, also by its own commands, and its
examples print what it says.
"""
import glob
import os
import re
import shlex
import shutil
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


def system_pkgconfig():
    """Where jansson's file is: slate.pc asks for it."""
    return run("pkg-config", "--variable=pcfiledir", "jansson").strip()


def tutorial(source, kind):
    """Its blocks of a kind, as one text."""
    with open(os.path.join(source, "plugins", "README.md"), encoding="utf-8") as file:
        return "".join(re.findall(rf"```{kind}\n(.*?)```", file.read(), re.DOTALL))


def ask(source, address):
    """Runs the tutorial's examples; "…" in what they print stands for anything."""
    for example in tutorial(source, "console").split("$ ")[1:]:
        command, _, expected = example.partition("\n")
        printed = run("sh", "-c", command.replace("http://127.0.0.1:8080", address))
        pattern = ".*?".join(re.escape(piece) for piece in expected.strip().split("…"))
        assert re.fullmatch(pattern, printed.strip(), re.DOTALL), f"{command}\n{printed}\nis not\n{expected}"


def paste(directory, compiler, source, build, env):
    """The tutorial's own commands: those that build run, of those of the lab the arguments are read."""
    clone = os.path.join(directory, "clone")
    os.mkdir(clone)
    os.symlink(build, os.path.join(clone, "build"))
    os.symlink(os.path.join(source, "loadtest"), os.path.join(clone, "loadtest"))
    with open(os.path.join(directory, "total.lua"), "w", encoding="utf-8") as file:
        file.write(tutorial(source, "lua"))
    lines = [line.partition("#")[0].strip() for line in tutorial(source, "sh").splitlines()]
    assert lines[0] == "slate=/path/to/clone", lines[0]
    builds = [re.sub("^cc ", shlex.join(compiler) + " -Werror ", line) for line in lines if line.startswith("cc ")]
    asks = [f"{line} --help" for line in lines if "loadtest/run" in line]
    assert len(builds) == len(asks) == 2, lines
    for line in builds + asks:
        run("sh", "-c", f"slate={shlex.quote(clone)}; {line}", cwd=directory, env=env)


def plugins(directory, compiler, source, build, program, env):
    """The tutorial's handler and the samples, built with its command and every warning."""
    assert run("pkg-config", "--libs", "slate", env=env).split() == []
    cflags = run("pkg-config", "--cflags", "slate", env=env).split()
    with open(os.path.join(directory, "total.c"), "w", encoding="utf-8") as file:
        file.write(tutorial(source, "c"))
    paste(directory, compiler, source, build, env)
    flags = []
    for name in ("total", "transfer", "leases"):
        if name != "total":
            shutil.copy(os.path.join(source, "plugins", f"{name}.c"), directory)
        run(*compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *cflags,
            f"{name}.c", "-o", f"{name}.so", cwd=directory)
        flags += ["--plugin", f"{name}.so"]
    with subprocess.Popen([program, "--listen", "127.0.0.1:0", "--admin", "off", "--db", "off", *flags],
                          cwd=directory, stderr=subprocess.PIPE, text=True) as server:
        try:
            found = next(filter(None, map(re.compile(r"listening on (http://\S+)").search, server.stderr)), None)
            assert found, "the program did not start"
            ask(source, found[1])
        finally:
            server.terminate()
        server.communicate(timeout=60)
    assert server.returncode == 0, server.returncode


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
        library = [path for path in headers if os.path.basename(path) not in ("slate.h", "json.h")]
        assert exported == declared(library), \
            f"exported, declared: {sorted(exported ^ declared(library))}"
        plugins(directory, compiler, source, build, only(f"{directory}/**/bin/slate"),
                dict(os.environ, PKG_CONFIG_LIBDIR=f"{pkgconfig}:{system_pkgconfig()}",
                     PKG_CONFIG_SYSROOT_DIR=directory))
    print(f"{len(exported)} functions and variables are exported, all of them public")


if __name__ == "__main__":
    main()
