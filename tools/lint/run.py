#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every lint, one line each, and their own tests."""

import argparse
import pathlib
import subprocess
import sys
import time

import addresses
import common
import docs
import format
import headers
import layers
import packages_check
import prose
import rooms
import text

LINTS = {"layers": layers.check, "rooms": rooms.check, "addresses": addresses.check, "text": text.check, "packages": packages_check.check,
         "format": format.check, "headers": headers.check, "docs": docs.check,
         "prose": prose.check}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    root = parser.parse_args().root.resolve()
    failed = 0
    own_tests = subprocess.Popen([sys.executable, str(pathlib.Path(__file__).parent / "lint_test.py")],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for name, check in LINTS.items():
        start = time.monotonic()
        findings = check(root)
        print(f"lint {name:10} {'ok' if not findings else f'{len(findings)} findings':14} "
              f"{time.monotonic() - start:5.1f} s", flush=True)
        for finding in findings:
            print(f"  {finding}", flush=True)
        failed += bool(findings)
    _, said = own_tests.communicate()
    print(f"lint {'own tests':10} {'ok' if own_tests.returncode == 0 else 'FAILED'}")
    if own_tests.returncode != 0:
        print(said)
        failed += 1
    headers.report_time(root)
    print(f"lint: {len(LINTS) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
