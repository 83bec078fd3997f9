#!/usr/bin/python3
"""Disassembles a function that allocates once and counts what the bump path takes: the instructions
before its return (inlined, there is none), along the branch that is taken when the size fits. At
most a dozen, and no call.

Arguments: the C compiler, the source directory. Exit status 77: not this processor or toolchain.
"""
import platform
import re
import subprocess
import sys
import tempfile

SOURCE = """
#include "alloc/mem.h"
void *fixed(mem_context *ctx) { return mem_alloc(ctx, 24); }
void *any(mem_context *ctx, size_t size) { return mem_alloc(ctx, size); }
void *grain(mem_context *ctx) { return mem_alloc_aligned(ctx, 24, 8); }
"""
MOST = 12


def disassemble(compiler, source, directory):
    with open(f"{directory}/path.c", "w", encoding="ascii") as file:
        file.write(SOURCE)
    subprocess.run([*compiler, "-O2", "-DNDEBUG", "-I", source, "-c", "path.c", "-o", "path.o"],
                   cwd=directory, check=True)
    listing = subprocess.run(["objdump", "-d", "-r", "--no-show-raw-insn", "path.o"], check=True,
                             cwd=directory, capture_output=True, text=True).stdout
    functions = {}
    for line in listing.splitlines():
        if match := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            code = functions.setdefault(match[1], [])
        elif match := re.match(r" +([0-9a-f]+):\t(\w+) *(.*)", line):
            code.append((int(match[1], 16), match[2], match[3]))
    return functions


def fast_path(code):
    """The instructions to the first return; the branch to the slow path is the one that leads to a
    jump or call out of the function."""
    at = {address: i for i, (address, _, _) in enumerate(code)}

    def leaves(i):
        """Whether only the slow path lies here: it ends in a call or jump elsewhere."""
        for _, name, _ in code[i:]:
            if name in ("ret", "retq"):
                return False
            if name in ("call", "callq", "jmp", "jmpq"):
                return True
        return True

    taken, i = [], 0
    while True:
        _, name, operands = code[i]
        if name in ("ret", "retq"):
            return taken
        taken.append(name)
        assert name not in ("call", "callq"), f"a call on the fast path: {taken}"
        target = at.get(int(operands.split()[0], 16)) if name.startswith("j") else None
        if name.startswith("j") and target is None:
            raise AssertionError(f"the fast path leaves the function: {taken}")
        i = target if target is not None and (name.startswith("jmp") or leaves(i + 1)) else i + 1


def main():
    compiler, source = sys.argv[1].split(), sys.argv[2]
    if platform.machine() != "x86_64":
        sys.exit(77)
    with tempfile.TemporaryDirectory() as directory:
        try:
            functions = disassemble(compiler, source, directory)
        except FileNotFoundError:
            sys.exit(77)
    assert set(functions) == {"fixed", "any", "grain"}, functions
    for name, code in functions.items():
        path = fast_path(code)
        print(f"{name}: {len(path)} instructions: {' '.join(path)}")
        assert len(path) <= MOST, f"{name}: more than {MOST}"


if __name__ == "__main__":
    main()
