#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that must not compile: the compiler's first error must be the one line that says what to do.

The program names that line in a comment, `// expect: text`, or, where the words are the compilers' own, in one for each:
`// expect g++: text`, `// expect clang++: text`. With -DFINE it must compile: so it fails for that reason.
Usage: compile_fail.py FILE INCLUDE_FOLDER COMPILER [--fine]
"""

import argparse
import pathlib
import re
import subprocess
import sys


def compile_it(compiler: str, include: str, file: pathlib.Path, *more: str) -> subprocess.CompletedProcess:
    # C locale: the words around ours are English and the quotes ASCII.
    return subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", f"-I{include}", *more, str(file)],
                          capture_output=True, text=True, timeout=25, env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("include")
    parser.add_argument("compiler")
    parser.add_argument("--fine", action="store_true", help="also check that it compiles with -DFINE")
    arguments = parser.parse_args()
    compiler = "clang\\+\\+" if "clang" in pathlib.Path(arguments.compiler).name else "g\\+\\+"
    expected = re.search(rf"^// expect(?: {compiler})?: (.+)$", arguments.file.read_text(), re.MULTILINE)
    if not expected:
        sys.exit(f"{arguments.file}: no line '// expect: text'")
    if arguments.fine:
        fine = compile_it(arguments.compiler, arguments.include, arguments.file, "-DFINE")
        if fine.returncode != 0:
            sys.exit(f"{arguments.file} does not compile with -DFINE:\n{fine.stderr}")
    broken = compile_it(arguments.compiler, arguments.include, arguments.file)
    if broken.returncode == 0:
        sys.exit(f"{arguments.file} compiles, and must not")
    errors = [line for line in broken.stderr.splitlines() if re.search(r"\berror: ", line)]
    if not errors or expected.group(1) not in errors[0]:
        sys.exit(f"the first error lacks '{expected.group(1)}':\n{broken.stderr}")
    print(f"{errors[0]}\n({len(errors)} errors in all)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
