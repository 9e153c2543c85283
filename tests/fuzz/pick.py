#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds to a fuzz target's committed inputs those of another folder that reach most that none reaches yet.

  pick.py build/asan/bin/TARGET tests/fuzz/corpus/TARGET FOLDER [--most N]

libFuzzer's -merge=1 keeps every input that adds one branch: a thousand files. This takes the best few, one after the
other, so that the folder stays small enough to be committed; files named found-… and seed-… always stay.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import tempfile


def features(target: pathlib.Path, folders: list[pathlib.Path]) -> dict[pathlib.Path, set[int]]:
    """What each file reaches: branches with the ways they were taken, without how often."""
    with tempfile.TemporaryDirectory() as scratch:
        control, nothing = pathlib.Path(scratch, "control"), pathlib.Path(scratch, "nothing")
        nothing.mkdir()
        subprocess.run([target.resolve(), "-set_cover_merge=1", "-use_counters=0", f"-merge_control_file={control}", nothing,
                        *folders], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={"ASAN_OPTIONS": "detect_stack_use_after_return=0", **os.environ})
        lines = control.read_text().splitlines()
    count = int(lines[0])
    names = [pathlib.Path(line) for line in lines[2:2 + count]]
    reached = {name: set() for name in names}
    for line in lines[2 + count:]:
        word, number, *rest = line.split()
        if word == "FT":
            reached[names[int(number)]] = {int(x) for x in rest}
    return reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--most", type=int, default=17, help="files besides seed-… and found-… (default: 17)")
    arguments = parser.parse_args()
    reached = features(arguments.target, [arguments.corpus, arguments.folder])
    covered: set[int] = set()
    others = {}
    for name, what in reached.items():
        if name.parent == arguments.corpus and name.name.startswith(("seed-", "found-")):
            covered |= what
        else:
            others[name] = what
    before = len(covered)
    chosen = []
    while others and len(chosen) < arguments.most:
        best = max(sorted(others, key=lambda name: (name.stat().st_size, name.name)),
                   key=lambda name: len(others[name] - covered))
        if not others[best] - covered:
            break
        covered |= others.pop(best)
        chosen.append(best.read_bytes())
    for old in arguments.corpus.glob("more-*"):
        old.unlink()
    for content in chosen:
        (arguments.corpus / f"more-{hashlib.sha1(content).hexdigest()[:12]}").write_bytes(content)
    everything = len(set().union(*reached.values()))
    print(f"{arguments.corpus}: {before} features of seeds, {len(covered)} with {len(chosen)} more files, {everything} of all")


if __name__ == "__main__":
    main()
