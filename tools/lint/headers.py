#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Public headers: each compiles alone, and includes only the standard library and other public headers.

Public is what is installed: the headers named in HEADERS of tern_layer() and in file sets, in tern/**/CMakeLists.txt. A
folder without a CMakeLists.txt has all its headers public. Reports how long tern/tern.hpp takes to compile, and which of
the headers that it includes take longer than a layer's own may (a report, not a check: machines differ; the budgets are
1.6 and 0.9 s of CPU). `--times` prints all of them.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

import common

STANDARD = set("""
algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts condition_variable
coroutine deque exception execution filesystem format forward_list fstream functional future initializer_list iomanip ios
iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new numbers numeric optional
ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream stack
stdexcept stop_token streambuf string string_view strstream syncstream system_error thread tuple type_traits typeindex
typeinfo unordered_map unordered_set utility valarray variant vector version
cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib
cstring ctime cuchar cwchar cwctype
""".split())
# <chrono> without streams, which no public header needs: decision 0102.
PARTS = {"tern/base/language/durations.hpp": {"bits/chrono.h", "chrono"}}
# Never there: they end a compilation (tern/base/language/compiler.hpp).
STOPS = {"tern/needs_a_newer_compiler", "tern/needs_cxx20"}
# A header that C includes has only these.
STANDARD_C = set("""assert.h ctype.h errno.h fenv.h float.h inttypes.h limits.h locale.h math.h setjmp.h signal.h stdarg.h
stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h time.h uchar.h wchar.h wctype.h""".split())
BUDGET_SECONDS = 1.6  # of CPU
HEADER_BUDGET_SECONDS = 0.9  # of one that tern.hpp includes


def listed_headers(content: str) -> list[str] | None:
    """Headers a CMakeLists.txt installs; None if it computes them, so that one cannot tell."""
    content = re.sub(r"#[^\n]*", "", content)
    found = []
    for call in re.finditer(r"(?:tern_layer|target_sources)\s*\(([^)]*)\)", content):
        keyword = ""
        for word in call.group(1).split():
            if word.isupper():
                keyword = word if (word, keyword) != ("HEADERS", "FILE_SET") else keyword
            elif keyword in ("HEADERS", "FILES"):
                if "$" in word:
                    return None
                found.append(word.strip('"'))
    return found


def public_headers(root: pathlib.Path) -> list[str]:
    headers = [name for name in common.sources(root, "tern/") if name.endswith((".hpp", ".h"))]
    lists: dict[str, list[str] | None] = {}
    for name in common.files(root):
        if name.startswith("tern/") and name.endswith("/CMakeLists.txt"):
            folder = os.path.dirname(name)
            listed = listed_headers(common.text(root, name))
            lists[folder] = None if listed is None else [os.path.normpath(f"{folder}/{header}") for header in listed]

    def is_public(header: str) -> bool:
        folder = os.path.dirname(header)
        while folder and folder not in lists:
            folder = os.path.dirname(folder)
        listed = lists.get(folder)
        # tern/CMakeLists.txt speaks for tern.hpp only, not for a layer that has no CMakeLists.txt yet.
        if listed is None or (folder == "tern" and os.path.dirname(header) != "tern"):
            return True
        return header in listed

    return [header for header in headers if is_public(header)]


def check_includes(root: pathlib.Path) -> list[common.Finding]:
    findings = []
    public = set(public_headers(root))
    for name in sorted(public):
        for include in common.includes(common.text(root, name)):
            if (include.name in STANDARD - {"chrono"}) or include.name in STOPS or (include.name in STANDARD_C and name.endswith(".h")):
                continue
            if include.name in PARTS.get(name, ()):
                continue
            if include.name == "chrono" and name.endswith(".hpp"):
                findings.append(common.Finding(name, include.line, "own-headers",
                                               "<chrono> brings <sstream> and all locales: include "
                                               "<tern/base/language/durations.hpp>, which has durations and clocks"))
                continue
            target = common.resolve(root, name, include)
            if target in public:
                continue
            if include.name in STANDARD_C:
                message = f"<{include.name}>: use <c{include.name[:-2]}>"
            elif target.startswith("tern/") and (root / target).is_file():
                message = f"public header includes {target}, which is not installed: list it in HEADERS"
            elif target.startswith("tern/"):
                message = f"{target} does not exist"
            else:
                message = (f"public header includes <{include.name}>: only the standard library and <tern/…>; "
                           "move it into a .cpp or a header that is not installed")
            findings.append(common.Finding(name, include.line, "own-headers", message))
    return findings


def compile_alone(root: pathlib.Path, scratch: pathlib.Path, name: str, compiler: str, language: str,
                  standard: str) -> list[common.Finding]:
    """Compiles a file that includes the header twice: complete, and guarded against the second time.

    With ccache, if it is there: a header is compiled again only if it or what it includes has changed.
    """
    suffix = "c" if language == "c" else "cpp"
    source = scratch / f"{name.replace('/', '.')}.{suffix}"
    source.write_text(f'#include "{name}"\n' * 2, encoding="utf-8")
    command = [compiler, f"-std={standard}", "-O0", "-Wall", "-Wextra", "-Werror", "-I.", "-c", "-o", f"{source}.o",
               str(source)]
    if shutil.which("ccache"):
        command.insert(0, "ccache")
    result = subprocess.run(command, text=True, capture_output=True, cwd=root,
                            env=os.environ | {"CCACHE_BASEDIR": str(root), "CCACHE_NOHASHDIR": "1"})
    if result.returncode == 0:
        return []
    errors = [text for text in result.stderr.splitlines() if "error" in text] or result.stderr.splitlines() or ["?"]
    match = re.match(rf"(?:\./)?{re.escape(name)}:(\d+):", errors[0])
    return [common.Finding(name, int(match.group(1)) if match else 1, "self-contained",
                           f"does not compile alone ({compiler}): {errors[0].replace(str(root) + '/', '')}")]


def check_self_contained(root: pathlib.Path) -> list[common.Finding]:
    scratch = root / "build" / "lint"
    scratch.mkdir(parents=True, exist_ok=True)
    jobs = []
    for name in public_headers(root):
        jobs.append((root, scratch, name, "g++", "c++", "c++20"))
        if name.endswith(".h") and shutil.which("gcc"):
            jobs.append((root, scratch, name, "gcc", "c", "c11"))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [finding for found in pool.map(lambda job: compile_alone(*job), jobs) for finding in found]


def include_seconds(root: pathlib.Path, name: str = "tern/tern.hpp", times: int = 3) -> float | None:
    """Seconds of CPU g++ needs for a file with this one include; the best of some. None if it doesn't compile."""
    best = None
    if not (root / name).is_file():
        return None
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run(["g++", "-x", "c++", "-std=c++20", "-O2", "-c", "-o", os.devnull, f"-I{root}", "-"],
                                input=f"#include <{name}>\n", text=True, capture_output=True)
        if result.returncode != 0:
            return None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best or 1e9, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def report_time(root: pathlib.Path, all_times: bool = False) -> None:
    if (seconds := include_seconds(root)) is not None:
        print(f"include time: tern/tern.hpp {seconds:.2f} s of CPU (budget {BUDGET_SECONDS:.1f} s, "
              f"{'within' if seconds <= BUDGET_SECONDS else 'OVER'})")
    if not (root / "tern/tern.hpp").is_file():
        return
    own = [include.name for include in common.includes(common.text(root, "tern/tern.hpp"))]
    over = 0
    for name in own:
        # One look at those that are far below.
        seconds = include_seconds(root, name, 1)
        if seconds is not None and seconds > HEADER_BUDGET_SECONDS:
            seconds = min(seconds, include_seconds(root, name, 2) or seconds)
        if seconds is None or (seconds <= HEADER_BUDGET_SECONDS and not all_times):
            continue
        over += seconds > HEADER_BUDGET_SECONDS
        print(f"include time: {name} {seconds:.2f} s of CPU (budget {HEADER_BUDGET_SECONDS:.1f} s, "
              f"{'within' if seconds <= HEADER_BUDGET_SECONDS else 'OVER'})")
    print(f"include time: {len(own) - over} of {len(own)} headers of tern.hpp within {HEADER_BUDGET_SECONDS:.1f} s of CPU")


def check(root: pathlib.Path) -> list[common.Finding]:
    return check_includes(root) + check_self_contained(root)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--times", action="store_true", help="what each header that tern.hpp includes takes")
    arguments = parser.parse_args()
    tree = arguments.root.resolve()
    code = common.report(check(tree))
    report_time(tree, arguments.times)
    sys.exit(code)
