#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: the layer graph of docs/concepts/layers.md, checked over every source file under tern/.

  layers.py                    check; one line a violation
  layers.py --changed          file names on stdin; prints the layers they touch and every layer that builds on those
"""

import argparse
import pathlib
import re
import sys

import common

# What each layer's folder may include directly; through others follows. The order is bottom up.
GRAPH = {
    "base": [],
    "trace": ["base"],
    "task": ["trace"],
    "net": ["task"],
    "hetero": ["task"],
    "mobile": ["net"],
    "balance": ["mobile"],
    "global": ["balance", "hetero"],
}
EVERYTHING = "tern/tern.hpp"  # stands above all layers
RULE = "layers"


def reach(layer: str) -> set[str]:
    """The layer itself and all that it may include, directly or through others."""
    found = {layer}
    for below in GRAPH[layer]:
        found |= reach(below)
    return found


def with_dependants(changed: set[str]) -> list[str]:
    return [layer for layer in GRAPH if reach(layer) & changed]


def layer_of(path: str) -> str | None:
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "tern" else None


def allowed(layer: str) -> str:
    return " ".join(name for name in GRAPH if name in reach(layer)) or "nothing"


def check(root: pathlib.Path) -> list[common.Finding]:
    findings = []
    unknown = set()
    for name in common.sources(root, "tern/"):
        layer = layer_of(name)
        if layer is not None and layer not in GRAPH:
            if layer not in unknown:
                findings.append(common.Finding(name, 1, RULE, f"tern/{layer} is no layer: add it to the graph in "
                                               "tools/lint/layers.py and docs/concepts/layers.md, with a decision record"))
            unknown.add(layer)
            continue
        for include in common.includes(common.text(root, name)):
            target = common.resolve(root, name, include)
            complain = lambda message: findings.append(common.Finding(name, include.line, RULE, message))
            folder = target.split("/")[0]
            if folder == "tests" and re.search(r"_test\.\w+$", name):
                continue  # fixtures
            if folder in ("apps", "bench", "examples", "tests", "tools") and (root / target).is_file():
                complain(f"tern/ includes {target}: the library includes nothing outside tern/")
            other = layer_of(target)
            if layer is None:
                continue
            if target == EVERYTHING:
                complain(f"{layer} includes {EVERYTHING}, which stands above all layers; include the header needed")
            elif other is not None and other not in GRAPH:
                complain(f"{layer} includes {target}: {other} is no layer of the graph")
            elif other is not None and other not in reach(layer):
                complain(f"{layer} includes {target}: {layer} may include {allowed(layer)}")
    return findings + check_cmake(root)


def check_cmake(root: pathlib.Path) -> list[common.Finding]:
    """The DEPENDS of each tern_layer() obeys the same graph."""
    findings = []
    for name in common.files(root):
        layer = layer_of(name)
        if layer not in GRAPH or not name.endswith("/CMakeLists.txt"):
            continue
        content = re.sub(r"#[^\n]*", "", common.text(root, name))
        for call in re.finditer(r"tern_layer\s*\(([^)]*)\)", content):
            keyword = ""
            for word in call.group(1).split()[1:]:
                if word.isupper():
                    keyword = word
                elif keyword == "DEPENDS" and word not in reach(layer) - {layer}:
                    line = content[:call.start()].count("\n") + 1
                    findings.append(common.Finding(name, line, RULE, f"{layer} depends on {word}: {layer} may use "
                                                   f"{allowed(layer)}"))
    return findings


def touched(names: list[str]) -> set[str]:
    """Layers (also applications, and "tool" for the tern command) whose tests a change of these files concerns."""
    changed = set()
    for name in names:
        if (layer := layer_of(name)) in GRAPH:
            changed.add(layer)
        elif name.startswith("cmake/") or name in ("CMakeLists.txt", "CMakePresets.json", "tern/CMakeLists.txt"):
            changed.update(GRAPH)
        elif name.startswith("apps/") and name.count("/") > 1:
            changed.add(name.split("/")[1])
        elif name.startswith("tools/tern/"):
            changed.add("tool")
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--changed", action="store_true")
    arguments = parser.parse_args()
    if arguments.changed:
        root = arguments.root.resolve()
        changed = touched(sys.stdin.read().split("\n"))
        layers = [layer for layer in with_dependants(changed) if (root / "tern" / layer / "CMakeLists.txt").is_file()]
        print("\n".join(layers + sorted(changed - set(GRAPH))), end="\n" if layers or changed else "")
        return 0
    return common.report(check(arguments.root.resolve()))


if __name__ == "__main__":
    sys.exit(main())
