#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# disk.sh DIRECTORY MIB: MiB/s at which dd reads that many MiB past the kernel's cache, and reads and writes them; or what
# is absent.
set -eu
export LC_ALL=C
file=$(mktemp "$1/tern-bench-XXXXXX")
trap 'rm -f "$file"' EXIT
if ! dd if=/dev/zero of="$file" bs=1M count=1 oflag=direct 2>/dev/null; then
  printf '{"absent": "a file system that can write past the cache, in %s (TMPDIR)"}\n' "$1"
  exit
fi
dd if=/dev/zero of="$file" bs=1M count="$2" oflag=direct 2>/dev/null
seconds() { sed -n 's/.*copied, \([0-9.e+-]*\) s,.*/\1/p'; }
read=$(dd if="$file" of=/dev/null bs=1M iflag=direct 2>&1 | seconds)
write=$(dd if=/dev/zero of="$file" bs=1M count="$2" oflag=direct conv=notrunc 2>&1 | seconds)
awk -v n="$2" -v r="$read" -v w="$write" 'BEGIN { printf "{\"read\": %.9g, \"update\": %.9g}\n", n / r, 2 * n / (r + w) }'
