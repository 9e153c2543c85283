#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the library's and the applications' sources: tidy.py BUILD-FOLDER (with compile_commands.json)."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

import common


def main() -> int:
    root = pathlib.Path(__file__).resolve().parents[2]
    if len(sys.argv) != 2 or not (database := pathlib.Path(sys.argv[1]) / "compile_commands.json").is_file():
        print("usage: tidy.py BUILD-FOLDER (one that CMake has configured)", file=sys.stderr)
        return 2
    tool = shutil.which("clang-tidy-19")
    if tool is None:
        print("no clang-tidy here: install the package clang-tidy-19", file=sys.stderr)
        return 2
    built = {os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
             for entry in json.loads(database.read_text())}
    names = [name for name in common.sources(root) if name in built and not name.endswith("_test.cpp")]

    def tidy(name: str) -> tuple[str, subprocess.CompletedProcess]:
        return name, subprocess.run([tool, "-p", str(database.parent), "--quiet",
                                      "--extra-arg=-Wno-unknown-warning-option",
                                      "--extra-arg=-Wno-ignored-gch",  # g++'s precompiled headers of the tests
                                      name], cwd=root, capture_output=True, text=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, result in pool.map(tidy, names):
            if result.returncode != 0 or "warning:" in result.stdout:
                print(f"{result.stdout}{result.stderr if result.returncode else ''}", flush=True)
                failed += 1
    print(f"clang-tidy: {len(names) - failed} files clean, {failed} not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
