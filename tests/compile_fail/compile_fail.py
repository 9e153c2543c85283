#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that must not compile: the compiler's first error must be the one line that says what to do.

The program names that line in a comment, `// expect: text`, or, where the words are the compilers' own, in one for each:
`// expect g++: text`, `// expect clang++: text`. A type that the compiler must name somewhere beside it stands in a comment
`// names: type`. With -DFINE it must compile: so it fails for that reason. All of a folder do that in one compilation,
each in a namespace of its own.
All include the same headers, which are precompiled first, as `--precompile` says.
Usage: compile_fail.py FILE INCLUDE_FOLDER COMPILER PRECOMPILED
       compile_fail.py --fine FOLDER INCLUDE_FOLDER COMPILER PRECOMPILED
       compile_fail.py --precompile INCLUDE_FOLDER COMPILER PRECOMPILED
"""

import argparse
import pathlib
import re
import subprocess
import sys


HEADERS = "#include <tern/hetero/hetero_task.hpp>\n#include <tern/tern.hpp>\n"


def run(compiler: str, include: str, *more: str) -> subprocess.CompletedProcess:
    # C locale: the words around ours are English and the quotes ASCII.
    return subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", f"-I{include}", *more],
                          capture_output=True, text=True, timeout=50, env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"})


def is_clang(compiler: str) -> bool:
    return "clang" in pathlib.Path(compiler).name


def precompile(include: str, compiler: str, where: pathlib.Path) -> None:
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(HEADERS)
    made = f"{where}.{'pch' if is_clang(compiler) else 'gch'}"
    done = run(compiler, include, "-x", "c++-header", str(where), "-o", made)
    if done.returncode != 0:
        sys.exit(f"{where} does not compile:\n{done.stderr}")
    print(made)


def compile_it(compiler: str, include: str, where: pathlib.Path, file: pathlib.Path, *more: str) -> subprocess.CompletedProcess:
    with_header = ["-include-pch", f"{where}.pch"] if is_clang(compiler) else ["-Winvalid-pch", "-include", str(where)]
    return run(compiler, include, "-fsyntax-only", *with_header, *more, str(file))


def compile_fine(compiler: str, include: str, where: pathlib.Path, folder: pathlib.Path) -> None:
    programs = sorted(folder.glob("*.cpp"))
    headers = sorted({line for p in programs for line in re.findall(r"^#include <.*>", p.read_text(), re.MULTILINE)})
    whole = where.parent / "fine.cpp"
    # A main function that is not the program's may not go without its return.
    whole.write_text("\n".join(headers + [f'namespace {p.stem} {{\n#include "{p.resolve()}"\n}}' for p in programs]) + "\n")
    fine = compile_it(compiler, include, where, whole, "-DFINE", "-Wno-return-type")
    if fine.returncode != 0:
        sys.exit(f"not all programs in {folder} compile with -DFINE:\n{fine.stderr}")
    print(f"{len(programs)} programs compile with -DFINE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, nargs="?")
    parser.add_argument("include")
    parser.add_argument("compiler")
    parser.add_argument("precompiled", type=pathlib.Path, help="a header; its precompiled form lies beside it")
    parser.add_argument("--fine", action="store_true", help="check that all in the folder FILE compile with -DFINE")
    parser.add_argument("--precompile", action="store_true", help="make that header")
    arguments = parser.parse_args()
    if arguments.precompile:
        precompile(arguments.include, arguments.compiler, arguments.precompiled)
        return 0
    if arguments.fine:
        compile_fine(arguments.compiler, arguments.include, arguments.precompiled, arguments.file)
        return 0
    compiler = r"clang\+\+" if is_clang(arguments.compiler) else r"g\+\+"
    expected = re.search(rf"^// expect(?: {compiler})?: (.+)$", arguments.file.read_text(), re.MULTILINE)
    if not expected:
        sys.exit(f"{arguments.file}: no line '// expect: text'")
    broken = compile_it(arguments.compiler, arguments.include, arguments.precompiled, arguments.file)
    if broken.returncode == 0:
        sys.exit(f"{arguments.file} compiles, and must not")
    errors = [line for line in broken.stderr.splitlines() if re.search(r"\berror: ", line)]
    if not errors or expected.group(1) not in errors[0]:
        sys.exit(f"the first error lacks '{expected.group(1)}':\n{broken.stderr}")
    names = re.search(r"^// names: (.+)$", arguments.file.read_text(), re.MULTILINE)
    if names and not re.search(rf"\b{re.escape(names.group(1))}\b", "\n".join(re.findall(r"with .*|'.*?'", broken.stderr))):
        sys.exit(f"nothing names '{names.group(1)}':\n{broken.stderr}")
    print(f"{errors[0]}\n({len(errors)} errors in all)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
