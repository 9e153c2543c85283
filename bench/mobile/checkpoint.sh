#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# checkpoint.sh PROGRAM DIRECTORY MIB: MiB/s at which two ranks save so many MiB of objects, and read them back when the
# kernel no longer has them; and at which dd writes them durably, and reads them past the kernel's cache; or what is absent.
set -eu
export LC_ALL=C TERN_RANKS=2 TERN_WORKERS=1
folder=$(mktemp -d "$2/tern-bench-XXXXXX")
trap 'rm -rf "$folder"' EXIT
if ! dd if=/dev/zero of="$folder/file" bs=1M count=1 oflag=direct 2>/dev/null; then
  printf '{"absent": "a file system that can be read past the cache, in %s (TMPDIR)"}\n' "$2"
  exit
fi
rate() { sed -n 's/.*"rate": *\([0-9.e+-]*\).*/\1/p'; }
seconds() { sed -n 's/.*copied, \([0-9.e+-]*\) s,.*/\1/p'; }
write=$("$1" save "$3" "$folder/run" | rate)
for file in "$folder"/run/*/*; do
  dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null
done
read=$(TERN_RESTART="$folder/run" "$1" go_on "$3" | rate)
dd_write=$(dd if=/dev/zero of="$folder/file" bs=1M count="$3" conv=fsync 2>&1 | seconds)
dd_read=$(dd if="$folder/file" of=/dev/null bs=1M iflag=direct 2>&1 | seconds)
awk -v n="$3" -v w="$write" -v r="$read" -v dw="$dd_write" -v dr="$dd_read" \
  'BEGIN { printf "{\"write\": %.9g, \"restart\": %.9g, \"dd_write\": %.9g, \"dd_read\": %.9g}\n", w, r, n / dw, n / dr }'
