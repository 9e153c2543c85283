#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the models of this folder with SPIN: right ones must be right, broken ones must be found out.

One line each. The exit code is 0 if all is as it should be, 1 if not, 77 if SPIN is not installed.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MEMORY_MIB = 1800
SECONDS = 400  # for one search
DEPTH = 200000
STORY_LINES = 80
COMPILER = os.environ.get("CC", "cc").split()

# What must be right: a model and its switches. "cycles": instead of all else, that no run goes on for ever.
RIGHT = [
    ("deque", "-DTASKS=3"),
    ("deque", "-DUNPOPS=0 -DCAPACITY=2"),
    ("deque", "-DTASKS=3 -DKEEP_WANT"),
    ("parking", "-DWORKERS=2 -DEARLY=2"),
    ("parking", "-DWORKERS=2 -DKEEP_WANT"),
    ("parking", "-DWORKERS=2 -DYIELDS=1"),
    ("parking", "-DWORKERS=2 -DYIELDS=1", "cycles"),
    ("parking", "-DFOREIGN=0 -DPUSHES=1 -DYIELDS=1"),
    ("parking", "-DFOREIGN=0 -DPUSHES=1", "cycles"),
    ("parking", "-DFOREIGN=0 -DPUSHES=3"),
    ("parking", "-DFOREIGN=0 -DFORCES=1"),
    ("parking", "-DFOREIGN=0 -DKEEP_WANT"),
    ("parking", "-DFOREIGN=0 -DLAST_LOOKS_BEHIND_BARRIER"),
    ("parking", "-DPUSHES=1"),
    ("run_queue", "-DOTHERS=1"),
    ("run_queue", "-DFIBERS=2"),
    ("run_queue", "-DOTHERS=1 -DKEEP_WANT"),
    ("run_queue", "-DFIBERS=2 -DKEEP_WANT"),
    ("epoch", ""),
    ("epoch", "-DUNITS=3"),
    ("epoch", "-DRANKS=4 -DMESSAGES=3 -DUNITS=1"),
    ("polling", ""),
    ("polling", "-DMESSAGES=2 -DSENDS=1"),
    ("polling", "-DMESSAGES=2 -DWAITS=1"),
    ("polling", "-DWORKERS=3 -DMESSAGES=1"),
    ("polling", "-DMESSAGES=2", "cycles"),
    ("mailbox", ""),
    ("mailbox", "-DWAITS=2 -DLONGS=0"),
    ("handed", ""),
    ("handed", "-DCAPACITY=1"),
    ("parts", ""),
    ("parts", "-DENTRIES=3"),
    ("parts", "-DENTRIES=3 -DWAITS=0"),
    ("quiescence", ""),
    ("quiescence", "-DRANKS=2 -DMESSAGES=4"),
    ("mobile", ""),
    ("mobile", "-DFAILS=1 -DCLOSES=1"),
    ("mobile", "-DCLOSES=1"),
    ("mobile", "-DMESSAGES=1 -DACTORS=6"),
    ("mobile", "-DMESSAGES=1 -DMOVES=3"),
    ("mobile", "-DMESSAGES=1 -DDESTROYER=1"),
    ("followers", ""),
    ("copies_home", ""),
    ("shared_body", "-DLIVES=3"),
    ("shared_body", "-DDIES"),
    ("claims", "-DCLAIMERS=2"),
    ("claims", "-DPAIRS -DMOVES=0 -DPAUSES=0"),
    ("across", ""),
    ("recovery", ""),
    ("recovery", "", "cycles"),
    ("recovery", "-DRANKS=4 -DMESSAGES=1 -DCOPIES=1"),
]
# What must be found out: each of these breaks the model.
BROKEN = [
    ("deque", "-DTASKS=3", "NO_TAG NO_BARRIER NO_CAS_ON_WANT NO_CAS_ON_LAST FORCE_ANY"),
    ("parking", "-DFOREIGN=0", "NO_RECHECK NO_BARRIER NO_FORCE PREPARED_OR_NOTHING LAST_SEARCHER_SILENT LAST_LOOKS "
                               "LAST_LOOKS_AT_PUBLIC EXACTLY_ZERO COUNT_FIRST COUNTED_TWICE FINISH_EARLY"),
    ("parking", "-DFOREIGN=0 -DFORCES=1", "FORCE_SILENT"),
    ("parking", "-DWORKERS=2", "NO_VISITORS"),
    ("parking", "-DWORKERS=2 -DYIELDS=1", "QUEUES_FIRST YIELDED_SLEEP_ON"),
    ("run_queue", "-DOTHERS=1", "NO_BARRIER NO_BUSY WANT_FIRST FRONT_FIRST KEEP_BUSY END_EARLY UNLOCKED PUSH_SILENT "
                                "BOUND_SILENT"),
    ("run_queue", "-DOTHERS=2", "FORCE_ANY FORCE_SILENT"),
    ("epoch", "", "NO_PARENT KEEP_ALL LAST_PARENT NO_RECHECK ORIGIN_KEEPS"),
    ("polling", "", "RUN_HERE STOP_AT_ONE LONG_UNNOTICED CHAIN_AFTER_LONG SILENT NO_LOOK DONE_FIRST NEVER_SETTLED "
                    "TOLD_FIRST"),
    ("polling", "-DMESSAGES=2 -DSENDS=1", "SENT_FIRST"),
    ("polling", "-DMESSAGES=2 -DWAITS=1", "WAITED_GOES_ON"),
    ("mailbox", "", "NO_OWNER GOES_ON BEHIND END_SILENT KEEPS LOOK_FIRST NO_LOOK LAST_STAYS FREE_EARLY"),
    ("handed", "", "NO_SETTLE EARLY STAYS_BEHIND NO_LOCK ONE_ROUND LOOK_FIRST NO_LOOK NO_STAND_IN"),
    ("parts", "", "NO_BARRIER LOOK_FIRST NO_LOOK NO_MAILED ANY_QUEUES NOT_LEFT BACK_SILENT NOT_COUNTED COUNT_FIRST"),
    ("quiescence", "", "ONE_WAVE NO_BALANCE SENT_FIRST"),
    ("mobile", "-DFAILS=1", "TOLD_FIRST BACK_LATER SENDS_ON_EARLY"),
    ("mobile", "-DFAILS=1 -DCLOSES=1", "OPEN_DIRECTLY"),
    ("mobile", "-DCLOSES=1", "KEEPS_NOTHING FORGETS_EARLY"),
    ("mobile", "-DMESSAGES=1 -DMOVES=3", "LANDS_AT_ONCE"),
    ("mobile", "-DMESSAGES=1 -DDESTROYER=1", "GONE_DROPPED"),
    ("followers", "", "ANY_GIVEN SEEN_AGAIN KEEP_COUNT READY_TOO END_EARLY ENDED_LAST FREE_BIAS"),
    ("shared_body", "", "LEND_LATE FREE_EARLY BACK_EARLY BACK_TWICE KEEPS_LENT NO_SECOND"),
    ("shared_body", "-DDIES", "WAITS"),
    ("copies_home", "", "NO_ORDER ENDS_EARLY NOT_AGAIN AGAIN_AT_ONCE TWO_AT_ONCE SKIPPED_DONE FREE_READER"),
    ("claims", "-DCLAIMERS=2", "UNORDERED ALL_AT_ONCE LOST MOVES_EARLY REGAINS_ANYHOW MOVED_BY_OTHERS WAITS_WITH_ALL"),
    ("across", "", "NO_EVENT NO_COPY_ORDER COPY_ANYWAY NOT_AGAIN ENDS_EARLY S_AT_ONCE Q_ANYWAY NO_HOLD"),
    ("recovery", "", "COUNTS_OLD DROPS_NEW KEEPS_OLD NO_UNWIND PASSES_LATE DISCARDS_EARLY FREES_EARLY OWN_NUMBER "
                     "NOT_ADOPTED ANY_SETS REFUSES_MORE NEW_RING LEAVES NO_LAST"),
]


class Failure(Exception):
    pass


class Search:
    """One search through all states of one model, in a folder of its own."""

    def __init__(self, folder: pathlib.Path, model: str, switches: list[str]):
        self.folder, self.model, self.switches = folder, model, switches
        folder.mkdir()
        shutil.copy(HERE / f"{model}.pml", folder)
        self.call(["spin", *switches, "-a", f"{model}.pml"])

    def call(self, command: list[str]) -> str:
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=SECONDS)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def run(self, *defines: str) -> str:
        """What the search prints at its end, from 'errors: N' on also how many states it saw."""
        self.call([*COMPILER, "-O1", "-w", "-DCOLLAPSE" if "-DBFS" not in defines else "-DSAFETY",
                   f"-DMEMLIM={MEMORY_MIB}", *defines, "-o", "pan", "pan.c"])
        output = self.call(["./pan", f"-m{DEPTH}", *(["-l"] if "-DNP" in defines else [])])
        if "errors:" not in output:
            raise Failure(f"the search broke off:\n{output}")
        return output

    def story(self) -> str:
        """A counterexample, the shortest if there is memory for a search in breadth."""
        try:
            self.run("-DSAFETY", "-DBFS")
        except (Failure, subprocess.TimeoutExpired):
            pass  # the one from the search in depth is still there
        lines = self.call(["spin", *self.switches, "-t", "-B", f"{self.model}.pml"]).splitlines()
        return "\n".join(lines[-STORY_LINES:])


def number(pattern: str, output: str) -> int:
    match = re.search(pattern, output)
    return int(match.group(1)) if match else -1


def check(folder: pathlib.Path, model: str, switches: str, broken: bool, cycles: bool) -> bool:
    start = time.monotonic()
    problem = story = ""
    states = 0
    try:
        search = Search(folder, model, switches.split())
        output = search.run("-DNP" if cycles else "-DSAFETY")
        errors, states = number(r"errors: (\d+)", output), number(r"(\d+) states, stored", output)
        if broken and errors == 0:
            problem = "the broken model passes"
        elif not broken and errors != 0:
            problem, story = "wrong", search.story()
        elif not broken and re.search(r"Search not completed|max search depth too small|MEMLIM", output):
            problem = f"did not fit into {MEMORY_MIB} MiB and depth {DEPTH}"
    except (Failure, subprocess.TimeoutExpired) as e:
        problem = str(e)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    verdict = "FAILED: " + problem if problem else "found out" if broken else "ends" if cycles else "right"
    print(f"{model:11} {switches:42} {states:10} states {time.monotonic() - start:6.1f} s  {verdict}", flush=True)
    if story:
        print(story, flush=True)
    return not problem


def main() -> int:
    if not shutil.which("spin"):
        print("spin is not installed")
        return 77
    if not shutil.which(COMPILER[0]):
        print(f"no C compiler '{COMPILER[0]}', which SPIN's searches are compiled with: set CC")
        return 1
    plan = [(model, switches, False, "cycles" in rest) for model, switches, *rest in RIGHT]
    plan += [(model, f"{switches} -D{flaw}", True, False)
             for model, switches, flaws in BROKEN for flaw in flaws.split()]
    failed = 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tern-models-") as folder:
        for i, (model, switches, broken, cycles) in enumerate(plan):
            failed += not check(pathlib.Path(folder) / str(i), model, switches, broken, cycles)
    print(f"{len(plan)} searches, {failed} failed, {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
