#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rooms: a layer's folder holds its public headers and rooms; a room is one noun, small, with a README.

- The root of tern/LAYER holds public headers (HEADERS), README.md and CMakeLists.txt.
- A room, tern/LAYER/ROOM, has a README.md of at most 15 lines; a room has at most 20 files, any other
  folder 25, but for those of FULL; `detail` is no room.
- Headers of a room are private. What another layer, an application or a tool includes of them stands in the layer's
  README.md, in the section "For layers above", as "- `ROOM/x.hpp`: why".
- Rooms of a layer do not include each other, directly or in a circle, but for those of CIRCLES, which only shrinks. A
  public header belongs to the room of the .cpp or the private header of its name, if there is one.
"""

import os
import pathlib
import re
import sys

import common
import headers

RULE = "rooms"
FILES_OF_ROOM = 20
FILES = 25
README_LINES = 15
# Folders of many files that are alike, and why they are not divided.
FULL = {
    "docs/decisions": "a decision a file",
    "docs/design/figures": "a source and its picture",
    "docs/tutorial": "a step a page",
    "examples": "a step of the tutorial a file",
    "tests/compile_fail": "a case a file",
    "tests/fuzz/corpus": "inputs of the fuzzer",
}
# Rooms that include each other, and why. Nothing is added here: break the circle.
CIRCLES: dict[tuple[str, str, str], str] = {
}
DECLARED = re.compile(r"^- `([\w/]+\.hpp)`")


def split(path: str) -> tuple[str, str] | None:
    """Layer and room ("" for the layer's root) of a file below tern/."""
    parts = path.split("/")
    return (parts[1], "/".join(parts[2:-1])) if len(parts) > 2 and parts[0] == "tern" else None


def check_root(root: pathlib.Path) -> list[common.Finding]:
    findings = []
    public = set(headers.public_headers(root))
    for name in common.files(root):
        place = split(name)
        if place is None:
            continue
        if place[1] == "" and name not in public and os.path.basename(name) not in ("README.md", "CMakeLists.txt"):
            findings.append(common.Finding(name, 1, RULE, "a layer's root holds public headers, README.md and "
                                           "CMakeLists.txt: move it into a room"))
        if "detail" in place[1].split("/"):
            findings.append(common.Finding(name, 1, RULE, "detail is no room: name what the file is about"))
    return findings


def check_sizes(root: pathlib.Path) -> list[common.Finding]:
    findings, count = [], {}
    for name in common.files(root):
        folder = os.path.dirname(name)
        if os.path.basename(name) not in ("README.md", "CMakeLists.txt"):
            count[folder] = count.get(folder, 0) + 1
    for folder, files in sorted(count.items()):
        place = split(f"{folder}/x")
        most = FILES if place is None or place[1] == "" else FILES_OF_ROOM
        if files > most and not any(folder == full or folder.startswith(full + "/") for full in FULL):
            findings.append(common.Finding(folder or ".", 1, RULE, f"{files} files: a room of more than {most} is two"))
        if place is None or place[1] == "":
            continue
        readme = f"{folder}/README.md"
        if not (root / readme).is_file():
            findings.append(common.Finding(readme, 1, RULE, "missing: purpose, main class, invariants, and what it may "
                                           "include"))
        elif (lines := common.text(root, readme).count("\n")) > README_LINES:
            findings.append(common.Finding(readme, README_LINES + 1, RULE, f"{lines} lines: a room's page has at most "
                                           f"{README_LINES}"))
    return findings


def declared(root: pathlib.Path, layer: str) -> dict[str, int]:
    """What stands under "For layers above" in a layer's README.md: the headers, and on which line."""
    readme = root / "tern" / layer / "README.md"
    found, inside = {}, False
    for number, line in enumerate(readme.read_text(encoding="utf-8").splitlines() if readme.is_file() else [], 1):
        if line.startswith("## "):
            inside = line == "## For layers above"
        elif inside and (match := DECLARED.match(line)):
            found[match.group(1)] = number
    return found


def check_private(root: pathlib.Path) -> list[common.Finding]:
    findings = []
    layers = sorted({place[0] for name in common.files(root) if (place := split(name))})
    allowed = {layer: declared(root, layer) for layer in layers}
    used = {layer: set() for layer in layers}
    for name in common.sources(root):
        if name.startswith(("tests/", "bench/")) or re.search(r"_test\.\w+$", name):
            continue
        here = split(name)
        for include in common.includes(common.text(root, name)):
            target = common.resolve(root, name, include)
            there = split(target)
            if there is None or there[1] == "" or (here and here[0] == there[0]) or not (root / target).is_file():
                continue
            header = "/".join(target.split("/")[2:])
            used[there[0]].add(header)
            if header not in allowed[there[0]]:
                findings.append(common.Finding(name, include.line, RULE, f"{target} is private to {there[0]}: include a "
                                               f"public header, or list it in tern/{there[0]}/README.md under "
                                               "\"For layers above\""))
    for layer in layers:
        for header, line in allowed[layer].items():
            if header not in used[layer]:
                findings.append(common.Finding(f"tern/{layer}/README.md", line, RULE, f"{header} is listed, but nothing "
                                               "outside the layer includes it: take it off the list"))
    return findings


def edges(root: pathlib.Path) -> dict[tuple[str, str, str], tuple[str, int, str]]:
    """Which room of a layer includes which, with an include that does."""
    names = [name for name in common.sources(root, "tern/") if not re.search(r"_test\.\w+$", name)]
    homes: dict[tuple[str, str], str] = {}
    for name in sorted(names, key=lambda name: name.endswith(".cpp")):  # a .cpp says more than a private header
        if (place := split(name)) and place[1]:
            homes[place[0], pathlib.PurePath(name).stem] = place[1]

    def room(name: str) -> tuple[str, str] | None:
        place = split(name)
        if place is None or place[1]:
            return place
        home = homes.get((place[0], pathlib.PurePath(name).stem))
        return (place[0], home) if home else None

    found: dict[tuple[str, str, str], tuple[str, int, str]] = {}
    for name in names:
        if (here := room(name)) is None:
            continue
        for include in common.includes(common.text(root, name)):
            target = common.resolve(root, name, include)
            there = room(target) if (root / target).is_file() else None
            if there and there[0] == here[0] and there[1] != here[1]:
                found.setdefault((here[0], here[1], there[1]), (name, include.line, target))
    return found


def circles(graph: set[tuple[str, str]]) -> list[list[str]]:
    """The sets of rooms of which each reaches each other."""
    rooms = sorted({room for edge in graph for room in edge})
    reach = {room: {b for a, b in graph if a == room} for room in rooms}
    for middle in rooms:
        for room in rooms:
            if middle in reach[room]:
                reach[room] |= reach[middle]
    found = []
    for room in rooms:
        if room in reach[room] and not any(room in one for one in found):
            found.append([other for other in rooms if other in reach[room] and room in reach[other]])
    return found


def check_circles(root: pathlib.Path) -> list[common.Finding]:
    findings = []
    found = edges(root)
    pairs = {key for key in found if (key[0], key[2], key[1]) in found and key[1] < key[2]}
    for layer, a, b in sorted(pairs):
        if (layer, a, b) not in CIRCLES:
            name, line, target = found[layer, a, b]
            back = found[layer, b, a]
            findings.append(common.Finding(name, line, RULE, f"includes {target}, and {back[0]} includes {back[2]}: the "
                                           f"rooms {a} and {b} of {layer} include each other"))
    for layer, a, b in sorted(set(CIRCLES) - pairs):
        findings.append(common.Finding("tools/lint/rooms.py", 1, RULE, f"{a} and {b} of {layer} no longer include each "
                                       "other: take them off CIRCLES"))
    for layer in sorted({key[0] for key in found}):
        listed = {(a, b) for one, a, b in CIRCLES if one == layer}
        graph = {(a, b) for one, a, b in found if one == layer and (a, b) not in listed and (b, a) not in listed
                 and (layer, *sorted((a, b))) not in pairs}
        for rooms in circles(graph):
            findings.append(common.Finding(f"tern/{layer}/README.md", 1, RULE, "rooms include each other in a circle: " +
                                           ", ".join(rooms)))
    return findings


def check(root: pathlib.Path) -> list[common.Finding]:
    return check_root(root) + check_sizes(root) + check_private(root) + check_circles(root)


if __name__ == "__main__":
    sys.exit(common.main(__doc__, check))
