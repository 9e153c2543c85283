#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timed.sh LOG COMMAND…: runs a compiler or a linker, and appends to LOG how many seconds of CPU it took, as "SECONDS OUTPUT".
# OUTPUT is what follows -o. tools/budget.py adds them up. The exit code is the command's.
log=$1
shift
output=none headers= listed=
previous=
for word in "$@"; do
  case $previous in
    -o) output=$word ;;
    -MF) listed=$word ;;
  esac
  [[ $word == */cmake_pch.hxx ]] && headers=$word # the file that its precompiled headers were made of
  previous=$word
done
case $output in
  # g++ -E reads a precompiled header that lies there in the place of the headers. ccache, which compares what -E prints,
  # would then find the next one equal to any that was made where this one lay.
  *.gch | *.pch) rm -f -- "$output" "$output.sum" ;;
  # Not files of CMake's unity builds: they name others by whole paths, so that a second clone would find none.
  */Unity/*) ;;
  # A file with kernels puts its own text into the program (.incbin), comments too, which g++ -E does not print: ccache would
  # leave it alone. By what the compiler notes of the files that it has read (-MD) it keeps such files as well. Of what is in
  # precompiled headers the compiler notes nothing: their sum stands for it, and without it this way is not taken.
  *)
    sum=
    for kind in gch pch; do [[ -s $headers.$kind.sum ]] && sum=$headers.$kind.sum; done
    if [[ -z $headers ]]; then
      export CCACHE_DEPEND=1
    elif [[ -n $sum ]]; then
      export CCACHE_DEPEND=1 CCACHE_EXTRAFILES=$sum
    fi
    ;;
esac
TIMEFORMAT='%U %S'
exec 3>&1 4>&2
used=$({ time "$@" >&3 2>&4; } 2>&1)
code=$?
case $output in
  *.gch | *.pch) # one sum of all files that it was made of
    if ((code == 0)) && [[ -s $listed ]]; then
      sed -e 's/^[^:]*://' -e 's/\\$//' -- "$listed" | tr -s ' \n' '\n' | xargs -r -- sha256sum -- 2>/dev/null |
        cut -c 1-64 | sha256sum >"$output.sum"
    fi
    ;;
esac
# Both are "S.mmm"; a line this short is written at once.
user=${used% *} system=${used#* }
ms=$((10#${user/./} + 10#${system/./}))
printf '%d.%03d %s\n' $((ms / 1000)) $((ms % 1000)) "$output" >>"$log"
exit $code
