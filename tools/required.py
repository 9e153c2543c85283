#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is there all that the tests need? They are built and run without an MPI, OpenCL or SPIN too, but then there are fewer.

    tools/required.py [--san] [--long]     for ./check with the same words

Looks before anything is built, where tests/floors.txt counts afterwards. One line for each thing that is missing, with the
Debian package that has it; exit code 1 if there is any. What is looked for is what CMake looks for, so that other systems'
names do as well (TERN_SKIP_SETUP=1).
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys


class Machine:
    """What is here; tests have another."""

    def program(self, *names: str) -> bool:
        return any(shutil.which(name) for name in names)

    def says(self, pattern: str, *command: str) -> bool:
        """Does what it prints have the pattern?"""
        if not shutil.which(command[0]):
            return False
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
        return re.search(pattern, done.stdout + done.stderr) is not None

    def module(self, *names: str) -> bool:
        return any(self.says("yes", "sh", "-c", f"pkg-config --exists {name} && echo yes") for name in names)

    def opencl_driver(self, word: str) -> bool:
        folder = pathlib.Path(os.environ.get("OCL_ICD_VENDORS") or "/etc/OpenCL/vendors")
        return any(word in file.read_text(errors="replace") for file in folder.glob("*.icd")) if folder.is_dir() else False


def missing(m: Machine, san: bool, long: bool) -> list[str]:
    """A line for each thing that is not here."""
    found = []

    def need(there: bool, what: str, packages: str, tests: str) -> None:
        if not there:
            found.append(f"{what} is not found: install {packages}; without it, {tests}")

    need(m.module("ompi-c", "ompi"), "Open MPI (pkg-config ompi-c)", "libopenmpi-dev", "no test runs with Open MPI")
    need(m.module("mpich"), "MPICH (pkg-config mpich)", "libmpich-dev", "no test runs with MPICH")
    need(any(m.says("Open MPI|OpenRTE", name, "--version") for name in ("mpirun.openmpi", "orterun", "mpirun")),
         "the launcher of Open MPI (mpirun.openmpi)", "openmpi-bin", "no test runs with Open MPI")
    need(any(m.says("HYDRA", name, "--version") for name in ("mpirun.mpich", "mpiexec.hydra", "mpirun")),
         "the launcher of MPICH (mpirun.mpich)", "mpich", "no test runs with MPICH")
    need(m.opencl_driver("pocl"), "PoCL (a file in /etc/OpenCL/vendors)", "pocl-opencl-icd and ocl-icd-libopencl1",
         "no kernel runs on an OpenCL device")
    need(m.program("clang++-19"), "clang++-19", "clang-19", "the second compiler and all sanitizers are left out")
    need(m.says("works", "gdb", "-nx", "-batch", "-ex", "python print('wor' + 'ks')"), "a gdb with Python", "gdb",
         "the debugger's script and tern run --gdb are not tested")
    if san:
        need(m.program("llvm-symbolizer-19"), "llvm-symbolizer-19", "llvm-19", "the sanitizers' reports name no lines")
    if long:
        need(m.program("spin"), "spin", "spin", "the models of the protocols are not checked")
        need(m.program("clang-tidy-19"), "clang-tidy-19", "clang-tidy-19", "the static checks are left out")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--san", action="store_true")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    found = missing(Machine(), arguments.san, arguments.long)
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print("all that the tests need is here")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
