#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What differs between two processes must not decide what the runtime does: nothing under tern/ orders or hashes by
address, or takes numbers from the clock on the wall, the process or the machine. A simulated run is replayed from its
seed in another process (tern/task/sim.hpp).

What decides nothing says so, on its line or in the comment lines right above it:  // address: WHY
"""

import pathlib
import re
import sys
from typing import Iterable, NamedTuple

import common

RULE = "address"
TESTS = re.compile(r"_test\.\w+$|(^|/)tests?/")
EXEMPT = re.compile(r"//[/!<]*\s*address:(.*)$")
# What comments and literals are, so that only code is looked at; a ' inside a number begins none.
SILENT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
                    re.DOTALL)

# Where a template's own order stands among its arguments; with an order or a hash of its own it goes by no address.
TEMPLATES = {"map": 2, "multimap": 2, "set": 1, "multiset": 1, "unordered_map": 2, "unordered_multimap": 2,
             "unordered_set": 1, "unordered_multiset": 1, "priority_queue": 2, "less": None, "greater": None,
             "hash": None, "owner_less": None}
TEMPLATE = re.compile(r"\bstd::(?:ranges::)?(" + "|".join(TEMPLATES) + r")\s*<")
BY_VALUE = re.compile(r"\b(less|greater|less_equal|greater_equal|hash)\b")
# Types that are pointers or made of them, besides those with a star.
POINTERS = r"u?intptr_t|shared_ptr|unique_ptr|weak_ptr|coroutine_handle|thread::id|pthread_t|type_index|hwloc_obj_t"
ALIAS = re.compile(r"\b(?:using\s+(\w+)\s*=\s*([^;<>]*)|typedef\s+([^;<>]*?)\b(\w+))\s*;")

SORT = re.compile(r"\b(?:std::)?(?:ranges::)?((?:stable_|partial_|parallel_)?sort|nth_element|m(?:in|ax)_element|"
                  r"(?:make|push|pop|sort)_heap)\s*\(")
LIST = re.compile(r"\b(?:vector|array|deque|span)\s*<")
WALL = [(re.compile(pattern), what) for pattern, what in (
    (r"\brandom_device\b", "random_device is different in each process"),
    (r"(?<![\w.>:])(?:std::|::)?s?rand\s*\(|\bstd::s?rand\b", "rand is shared by the whole process"),
    (r"\bsystem_clock\b|\bCLOCK_REALTIME\b|\bgettimeofday\s*\(", "the clock on the wall is different in each run"),
    (r"(?<![\w.>:])(?:std::|::)?time\s*\(\s*(?:nullptr|NULL|0|&\s*\w+)\s*\)",
     "the clock on the wall is different in each run"),
    (r"\b(?:seed|s?rand|hash|mt19937\w*|minstd_rand0?|random)\w*\b.*\bgetpid\s*\(|[%^*+]\s*(?:::)?getpid\s*\(|"
     r"\bgetpid\s*\(\s*\)\s*[%^*+]", "a number from the process's id is different in each run"),
    (r"\bhash\w*\b.*\bget_id\s*\(", "a thread's id is an address"))]


class Part(NamedTuple):
    at: int
    message: str


def silence(content: str) -> str:
    """Comments and literals become spaces; everything stays where it is."""
    return SILENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), content)


def arguments(code: str, at: int) -> tuple[list[str], int]:
    """Of the template or call whose bracket ends at `at`, and where what follows it begins."""
    angle = code[at - 1] == "<"
    found, begin, depth = [], at, 0
    while at < len(code):
        c = code[at]
        if c in "([{" or (c == "<" and angle):
            depth += 1
        elif c in ")]}" or (c == ">" and angle and code[at - 1] != "-"):
            if depth == 0:
                break
            depth -= 1
        elif c == ";" and depth == 0:
            break
        elif c == "," and depth == 0:
            found.append(code[begin:at].strip())
            begin = at + 1
        at += 1
    return found + [code[begin:at].strip()], at + 1


class Types:
    """Which names of a file mean addresses."""

    def __init__(self, code: str):
        numbers, pointers = ["u?intptr_t"], [POINTERS]
        for match in ALIAS.finditer(code):
            name, meaning = match.group(1) or match.group(4), (match.group(2) or match.group(3)).strip()
            if re.fullmatch(r"(?:std::)?u?intptr_t", meaning):
                numbers.append(name)
            if meaning.endswith("*") or re.fullmatch(r"(?:std::)?u?intptr_t", meaning):
                pointers.append(name)
        self.pointer = re.compile(r"\*|\b(?:" + "|".join(pointers) + r")\b")
        name = "(?:std::|::)?(?:" + "|".join(numbers) + ")"
        wide = r"(?:std::|::)?(?:size_t|u?int64_t|u?int32_t|ptrdiff_t)|(?:unsigned )?long(?: long)?"
        self.cast = re.compile(rf"\breinterpret_cast\s*<\s*(?:{name}|{wide})\s*>|\bbit_cast\s*<\s*{name}\s*>|"
                               rf"(?<![\w>\])])\(\s*{name}\s*\)\s*[\w(&*:]|"
                               rf"\b(?:std::|::)?u?intptr_t\s*\(\s*[^)\s]")


def by_address(code: str, types: Types) -> Iterable[Part]:
    for match in TEMPLATE.finditer(code):
        name = match.group(1)
        given, _ = arguments(code, match.end())
        order = TEMPLATES[name]
        if name == "owner_less" or types.pointer.search(given[0]):
            if order is None or len(given) <= order or BY_VALUE.search(given[order]):
                how = "hashes" if "unordered" in name or name == "hash" else "orders"
                yield Part(match.start(), f"std::{name}<{' '.join(given[0].split())}> {how} by address: go by an id, or a "
                           "place in a list")


def lists_of_pointers(code: str, types: Types) -> set[str]:
    found = set()
    for match in LIST.finditer(code):
        given, end = arguments(code, match.end())
        if types.pointer.search(given[0]) and (name := re.match(r"\s*[&*]*\s*(\w+)", code[end:])):
            found.add(name.group(1))
    return found


def by_default(order: list[str]) -> bool:
    """Does a sort with these last arguments compare the elements themselves?"""
    if len(order) > 1 and order[1]:
        return False  # a projection
    if not order or order[0] in ("", "{}"):
        return True
    if parameters := re.match(r"\[[^\]]*\]\s*\(([^)]*)\)", order[0]):
        names = [re.split(r"[\s*&]+", one.strip())[-1] for one in parameters.group(1).split(",")]
        return len(names) == 2 and any(re.search(rf"(?<![\w.>*]){a}\s*[<>]=?\s*{b}(?!\w|->|\.|\[)", order[0])
                                       for a, b in (names, names[::-1]))
    return BY_VALUE.search(order[0]) is not None


def sorts(code: str, types: Types) -> Iterable[Part]:
    pointers = lists_of_pointers(code, types)
    for match in SORT.finditer(code):
        given, _ = arguments(code, match.end())
        first = re.match(r"(?:std::(?:ranges::)?c?begin\(\s*)?(\w+)(.*)", given[0], re.DOTALL)
        if not first or first.group(1) not in pointers:
            continue
        iterators = "begin" in given[0] or first.group(2).strip() != ""
        middle = match.group(1) in ("partial_sort", "nth_element")
        if by_default(given[1 + iterators + middle:]):
            yield Part(match.start(), f"{match.group(1)} of pointers orders by address: give it an order by id")


def parts(content: str) -> Iterable[Part]:
    code = silence(content)
    types = Types(code)
    yield from by_address(code, types)
    yield from sorts(code, types)
    for match in types.cast.finditer(code):
        yield Part(match.start(), "an address becomes a number: nothing may be compared, hashed or chosen by it")
    for match in re.finditer(r"(?<![\w&)\]])(?:&\s*\w[\w.]*|\bthis)\s+[<>]=?\s+(?:&\s*\w|\bthis\b)", code):
        yield Part(match.start(), "addresses are compared: go by an id")
    for pattern, what in WALL:
        for match in pattern.finditer(code):
            yield Part(match.start(), f"{what}: take numbers and times from the run's own seed and clock")


def exemption(lines: list[str], number: int) -> str | None:
    """The reason given for a line, on it or in the comment lines right above it; None without one."""
    if match := EXEMPT.search(lines[number - 1]):
        return match.group(1).strip()
    reason = ""
    for line in reversed(lines[:number - 1]):
        if not line.lstrip().startswith("//"):
            return None
        if match := EXEMPT.search(line):
            return f"{match.group(1).strip()} {reason}".strip()
        reason = f"{line.lstrip('/ ')} {reason}".strip()
    return None


def check(root: pathlib.Path) -> list[common.Finding]:
    findings = []
    for name in common.sources(root, "tern/"):
        if TESTS.search(name):
            continue
        content = common.text(root, name)
        lines = content.split("\n")
        said = set()
        for part in sorted(parts(content)):
            line = content.count("\n", 0, part.at) + 1
            if (line, part.message) in said:
                continue
            said.add((line, part.message))
            reason = exemption(lines, line)
            if reason is None:
                findings.append(common.Finding(name, line, RULE, f"{part.message} (or say '// address: WHY' it decides "
                                               "nothing)"))
            elif not reason:
                findings.append(common.Finding(name, line, RULE, "'// address:' without a reason"))
    return findings


if __name__ == "__main__":
    sys.exit(common.main(__doc__, check))
