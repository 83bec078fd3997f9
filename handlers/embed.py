#!/usr/bin/env python3
"""embed.py IN.json OUT.c NAME: a JSON text, without its white space, as a C string."""
import json
import sys

source, target, name = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    text = json.dumps(json.load(file), separators=(",", ":"))  # in ASCII
pieces = [text[i:i + 80] for i in range(0, len(text), 80)]
with open(target, "w", encoding="ascii") as file:
    file.write(f"#include <stddef.h>\n\nextern const char {name}[];\nextern const size_t {name}_size;\n\n"
               f"const char {name}[] =\n")
    for piece in pieces:
        file.write('    "' + piece.replace("\\", "\\\\").replace('"', '\\"') + '"\n')
    file.write(f"    ;\nconst size_t {name}_size = sizeof {name} - 1;\n")
