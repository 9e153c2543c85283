#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/setup.sh STAGE… installs the Debian packages of these stages (packages.txt) that are missing.
# Sourced by ./quickstart and ./check, it gives the functions below and does nothing else.
set -euo pipefail

tern_root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

tern_die() { printf '%s: %s\n' "$(basename -- "$0")" "$*" >&2; exit 1; }

# Seconds as 7s or 3m07s.
tern_seconds() { if (($1 < 60)); then printf '%ds' "$1"; else printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); fi; }

# Packages of the given stages, in the file's order.
tern_packages() {
  local stage package _ wanted=" $* "
  while read -r stage package _; do
    [[ -z $stage || $stage == \#* ]] && continue
    [[ $wanted == *" $stage "* ]] && printf '%s\n' "$package"
  done <"$tern_root/packages.txt"
  return 0
}

tern_missing_packages() {
  local package
  for package in $(tern_packages "$@"); do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true) == installed ]] || printf '%s\n' "$package"
  done
}

# tern_setup STAGE… installs what is missing, or ends with the command that a person has to run.
# TERN_SKIP_SETUP=1 skips it: for other systems, where the same software has other packages' names.
tern_setup() {
  if [[ ${TERN_SKIP_SETUP:-} == 1 ]]; then
    echo 'package check skipped (TERN_SKIP_SETUP=1)'
    return 0
  fi
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    tern_die "this system has no apt-get, so nothing was installed. Install the equivalents of these Debian 12 packages
  $(tern_packages "$@" | paste -sd' ')
and run again with TERN_SKIP_SETUP=1"
  fi
  local -a missing sudo=()
  mapfile -t missing < <(tern_missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    echo 'all packages are installed'
    return 0
  fi
  local install="apt-get update && apt-get install --yes --no-install-recommends ${missing[*]}"
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
      sudo=(sudo)
    else
      tern_die "${#missing[@]} packages are missing, and installing them needs root. As root, run
  $install
then start again (or set TERN_SKIP_SETUP=1 if you have the same software from elsewhere)"
    fi
  fi
  echo "installing ${#missing[@]} packages: ${missing[*]}"
  local log
  log=$(mktemp "${TMPDIR:-/tmp}/tern-setup.XXXXXX")
  if ! { "${sudo[@]}" apt-get update &&
         "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
           "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    tern_die "installing packages failed (whole log: $log). Tern's packages are those of Debian 12; try by hand
  $install"
  fi
  rm -f "$log"
}

# How many compilers may run at once: one a CPU, and 2 GiB of memory for each (CGAL's templates need it).
tern_jobs() {
  local cpus kib limit jobs
  cpus=$(nproc)
  kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)
  kib=${kib:-4194304}
  if [[ -r /sys/fs/cgroup/memory.max ]] && limit=$(</sys/fs/cgroup/memory.max) && [[ $limit =~ ^[0-9]+$ ]]; then
    ((limit / 1024 < kib)) && kib=$((limit / 1024))
  fi
  jobs=$((kib / (2 * 1024 * 1024)))
  ((jobs > cpus)) && jobs=$cpus
  ((jobs < 1)) && jobs=1
  printf '%d\n' "$jobs"
}

# tern_build LOG DIR [NINJA-ARGUMENT…] builds; all output goes to LOG, progress to the terminal (or, elsewhere, a line
# every tenth of the way), and after a failure the end of the log to stderr.
tern_build() {
  local log=$1 dir=$2 line tenth=-1
  shift 2
  mkdir -p -- "$(dirname -- "$log")"
  if NINJA_STATUS='[%f/%t] ' cmake --build "$dir" --parallel "$(tern_jobs)" "$@" 2>&1 | tee -- "$log" |
    while IFS= read -r line; do
      [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
      if [[ -t 1 ]]; then
        printf '\r  %s of %s steps ' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
      elif ((10 * BASH_REMATCH[1] / BASH_REMATCH[2] != tenth)); then
        tenth=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
        printf '  %s of %s steps\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
      fi
    done; then
    [[ ! -t 1 ]] || printf '\r\033[K'
    return 0
  fi
  echo >&2
  # What failed first is what matters; ninja prints it after FAILED.
  if grep -q '^FAILED' "$log"; then
    grep -A25 -m1 '^FAILED' "$log" | cut -c1-400 >&2
  else
    tail -n 40 "$log" >&2
  fi
  return 1
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  (($# > 0)) || tern_die 'usage: tools/setup.sh STAGE… (build, run, test, bench)'
  for stage in "$@"; do
    [[ $stage =~ ^(build|run|test|bench)$ ]] || tern_die "no such stage: $stage (build, run, test, bench)"
  done
  tern_setup "$@"
fi
