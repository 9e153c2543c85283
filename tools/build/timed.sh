#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timed.sh LOG COMMAND…: runs a compiler or a linker, and appends to LOG how many seconds of CPU it took, as "SECONDS OUTPUT".
# OUTPUT is what follows -o. tools/budget.py adds them up. The exit code is the command's.
log=$1
shift
output=none
previous=
for word in "$@"; do
  [[ $previous == -o ]] && output=$word
  previous=$word
done
# g++ -E reads a precompiled header that lies there in the place of the headers. ccache, which compares what -E prints,
# would then find the next one equal to any that was made where this one lay.
case $output in *.gch | *.pch) rm -f -- "$output" ;; esac
# A file with kernels puts its own text into the program (.incbin), comments too, which g++ -E does not print: ccache would
# leave it alone. By what the compiler notes of the files that it has read (-MD) it keeps such files as well. Not files of
# CMake's unity builds: they name others by whole paths, so that a second clone would find none.
case $output in *.gch | *.pch | */Unity/*) ;; *) export CCACHE_DEPEND=1 ;; esac
TIMEFORMAT='%U %S'
exec 3>&1 4>&2
used=$({ time "$@" >&3 2>&4; } 2>&1)
code=$?
# Both are "S.mmm"; a line this short is written at once.
user=${used% *} system=${used#* }
ms=$((10#${user/./} + 10#${system/./}))
printf '%d.%03d %s\n' $((ms / 1000)) $((ms % 1000)) "$output" >>"$log"
exit $code
