#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an older compiler says of Tern's public headers: that it is too old, and nothing else.

No public header has a line of Tern's before that of detail/compiler.hpp is read. The compiler is told that it is an
older one; one that is older indeed reads tern.hpp too.
Usage: old_compiler.py INCLUDE_FOLDER COMPILER [OLD_COMPILER]
"""

import pathlib
import re
import subprocess
import sys

CHECK = "tern/base/language/compiler.hpp"
CLANG = "Tern needs clang 16 or newer, or g++ 12 or newer; this is clang "
GXX = "Tern needs g++ 12 or newer, or clang 16 or newer; this is g++ "


def public_headers(root: pathlib.Path) -> list[str]:
    found = [str(path.relative_to(root)) for path in root.glob("tern/*/*.hpp") if not path.name.endswith("_test.hpp")]
    return sorted(found) + ["tern/tern.hpp"]


def reads_check_first(root: pathlib.Path, header: str) -> bool:
    """Whether the first of Tern's headers that is read to its end is the check."""
    while header != CHECK:
        found = re.search(r"^#include <(tern/[^>]+)>", (root / header).read_text(encoding="utf-8"), re.MULTILINE)
        if not found:
            return False
        header = found.group(1)
    return True


def errors(compiler: str, root: pathlib.Path, header: str, *flags: str) -> list[str]:
    """The texts of all errors that reading the header gives."""
    done = subprocess.run([compiler, *flags, "-fsyntax-only", f"-I{root}", "-x", "c++", "-"], capture_output=True, text=True,
                          timeout=50, input=f"#include <{header}>\n",
                          env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"})
    return [line.split("error: ", 1)[1].removeprefix("#error ").strip('"') for line in done.stderr.splitlines()
            if "error: " in line]


def check(name: str, found: list[str], expected: str, missing: str) -> int:
    """The second error is the one that ends the compilation."""
    if len(found) == 2 and found[0] == expected and missing in found[1]:
        return 0
    print(f"{name}: expected \"{expected}\" and the missing file {missing}, and found {found}")
    return 1


def main() -> int:
    root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
    macro, text, versions = ("__clang_major__", CLANG, {15: "15", 14: "14", 13: "13", 9: "12 or older"}) \
        if "clang" in pathlib.Path(compiler).name else ("__GNUC__", GXX, {11: "11", 10: "10", 9: "9 or older"})

    def pretend(header: str, version: int) -> list[str]:
        return errors(compiler, root, header, "-std=c++20", "-w", f"-U{macro}", f"-D{macro}={version}")

    headers = public_headers(root)
    late = [header for header in headers if not reads_check_first(root, header)]
    for header in late:
        print(f"{header}: include <{CHECK}> first")
    failed = len(late)
    for version, words in versions.items():
        failed += check(f"version {version}", pretend("tern/base/error.hpp", version), text + words,
                        "tern/needs_a_newer_compiler")
    failed += check("C++17", errors(compiler, root, "tern/base/error.hpp", "-std=c++17"),
                    "Tern needs C++20: compile with -std=c++20", "tern/needs_cxx20")
    if len(sys.argv) > 3:
        failed += check(sys.argv[3], errors(sys.argv[3], root, "tern/tern.hpp", "-std=c++20"), CLANG + "14",
                        "tern/needs_a_newer_compiler")
    print(f"{len(headers)} headers, {failed} checks failed")
    return 1 if failed or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
