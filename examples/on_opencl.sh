#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# on_opencl.sh TRACE yes|no PROGRAM ARGUMENT…: the program ends well, and, with yes, its trace shows a kernel of an OpenCL
# device. 77: there is no such device.
set -euo pipefail
trace=$1 kernels=$2
shift 2
rm -f -- "$trace"
ended=0
said=$("$@" --tern-trace="$trace" 2>&1) || ended=$?
echo "$said"
if [[ $ended != 0 && $said == *"no device 'opencl'"* ]]; then
  echo "skipped: there is no OpenCL device"
  exit 77
fi
[[ $ended == 0 ]]
if [[ $kernels == yes ]]; then
  grep -q "opencl0 kernels" "$trace" || { echo "no kernel has run on opencl0" >&2; exit 1; }
fi
