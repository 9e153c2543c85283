#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzz targets of build/asan from the committed inputs, each for some seconds. See --help.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
  cat <<'HELP'
tests/fuzz/run.sh [--seconds N] [--jobs N] [--merge] [TARGET…]

Fuzzes each TARGET (all, if none is named), --jobs at a time (1), for N seconds each (10). What it finds new stays in
build/fuzz/corpus/TARGET, from where the next run goes on; the tree is not written to. An input that fails is kept in
build/fuzz/findings, its path is printed with the command that replays it, and the exit code is 1.

  --merge  takes the files of build/fuzz/corpus that add most coverage into tests/fuzz/corpus afterwards (pick.py)
HELP
}
die() { printf 'run.sh: %s\n' "$*" >&2; exit 2; }

seconds=10 jobs=1 merge=0 targets=()
while (($# > 0)); do
  case $1 in
    --seconds | --jobs)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "$1 needs a number"
      if [[ $1 == --seconds ]]; then seconds=$2; else jobs=$2; fi
      shift ;;
    --merge) merge=1 ;;
    -h | --help) usage; exit 0 ;;
    fuzz_*) targets+=("$1") ;;
    *) die "unknown argument: $1 (--help)" ;;
  esac
  shift
done
((${#targets[@]} > 0)) || targets=(fuzz_archive fuzz_checkpoint fuzz_codec fuzz_message fuzz_node fuzz_text)

cd -- "$root"
scratch=build/fuzz/corpus findings=build/fuzz/findings
mkdir -p -- "$findings"
for target in "${targets[@]}"; do
  [[ -x build/asan/bin/$target ]] ||
    die "no build/asan/bin/$target: cmake --preset asan && cmake --build --preset asan --target fuzzers"
done
# With the quarantine and the depth of call stacks that are usual, fuzz_node takes 2 GiB within minutes, where it now
# stays at 115 MiB, and is six times slower.
export ASAN_OPTIONS=detect_stack_use_after_return=0:quarantine_size_mb=32:malloc_context_size=8
export UBSAN_OPTIONS=print_stacktrace=1
ASAN_SYMBOLIZER_PATH=$(command -v llvm-symbolizer-19 || true)
[[ -z $ASAN_SYMBOLIZER_PATH ]] || export ASAN_SYMBOLIZER_PATH
# A message never makes an archive take more memory than it brings: 64 MiB at once would be a finding.
limits=(-malloc_limit_mb=64 -rss_limit_mb=2048 -timeout=10 -len_control=10)

fuzz_one() { # TARGET
  local target=$1 log=build/fuzz/$1.log code=0 dictionary=() finding
  mkdir -p -- "$scratch/$target"
  if [[ $target == fuzz_text ]]; then dictionary=(-dict=tests/fuzz/text.dict); fi
  "build/asan/bin/$target" -max_total_time="$seconds" "${limits[@]}" "${dictionary[@]}" -print_final_stats=1 \
    -artifact_prefix="$findings/$target-" "$scratch/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1 || code=$?
  if ((code == 0)); then
    printf '%-14s ok      %s\n' "$target" "$(grep 'DONE' "$log" | tr -s '\t ' ' ')"
    return 0
  fi
  grep -E '^fuzz: |ERROR: |SUMMARY: |runtime error: ' "$log" | sort -u | head -n 5 || true
  finding=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  printf '%-14s FAILED  (code %d; log: %s)\n' "$target" "$code" "$log"
  [[ -z $finding ]] || printf '  input: %s\n  replay: build/asan/bin/%s %s\n' "$finding" "$target" "$finding"
  return 1
}

failed=0 running=0
for target in "${targets[@]}"; do
  if ((running >= jobs)); then
    wait -n || failed=1
    running=$((running - 1))
  fi
  fuzz_one "$target" &
  running=$((running + 1))
done
for ((; running > 0; --running)); do wait -n || failed=1; done

if ((merge)); then
  for target in "${targets[@]}"; do
    python3 tests/fuzz/pick.py "build/asan/bin/$target" "tests/fuzz/corpus/$target" "$scratch/$target"
  done
fi
exit $failed
