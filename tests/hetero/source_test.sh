#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# source_test.sh opencl|cuda|checked CLANG PRINTER FILE BLOCK: does clang take a block of kernels as devices' compilers get
# it? Of CUDA it makes PTX, which must have every kernel. Nothing is run, and nothing of NVIDIA's is needed. `checked`: as
# the host's compiler gets it where accesses are checked; g++ must take it, too.
set -euo pipefail
language=$1 clang=$2 printer=$3 block=("$4" "$5")

if [[ $language == opencl ]]; then
  "$printer" opencl "${block[@]}" |
    "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header --target=spir64 -Werror -fsyntax-only -
  exit
fi
if [[ $language == checked ]]; then
  for compiler in "$clang" c++; do
    "$printer" checked "${block[@]}" | "$compiler" -x c++ -std=c++20 -w -fsyntax-only -
  done
  exit
fi
kernels=$("$printer" kernels "${block[@]}")
for form in kernel fused; do
  if [[ $form == kernel ]]; then as=cuda; else as=cuda_fused; fi
  ptx=$("$printer" $as "${block[@]}" |
    "$clang" -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 -nocudainc -nocudalib -std=c++17 -Werror \
      -Wno-unknown-cuda-version -D__grid_constant__= -include __clang_cuda_builtin_vars.h \
      -S -o - -)
  for kernel in $kernels; do
    [[ $ptx == *".entry tern_${form}_$kernel("* ]] || { echo "the PTX has no kernel 'tern_${form}_$kernel'" >&2; exit 1; }
  done
done
echo "in PTX:" $kernels
