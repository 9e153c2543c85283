#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Renders the figures of docs/design anew: FIGURE.dot with graphviz, FIGURE.msc with mscgen, each to FIGURE.svg.
# Usage: tools/docs/figures.sh [FOLDER]     FOLDER: where the SVG files go; by default beside their sources
set -euo pipefail
figures=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../docs/design/figures" && pwd)
to=${1:-$figures}
for tool in dot mscgen; do
  command -v "$tool" >/dev/null || {
    echo "figures.sh: $tool is not here; apt install graphviz mscgen" >&2
    exit 2
  }
done
mkdir -p -- "$to"
for source in "$figures"/*.dot; do dot -Tsvg "$source" -o "$to/$(basename -- "${source%.dot}").svg"; done
# mscgen puts text on its arrows: 3 pixels higher it stands above them.
for source in "$figures"/*.msc; do
  mscgen -T svg -i "$source" -o - |
    sed -E -e '/^<polygon fill="white"/{N;s/\n<text/\n<text paint-order="stroke" stroke="white" stroke-width="3"/}' \
        -e 's/(^|\n)<text/\1<text dy="-3"/' -e 's/font-family="Helvetica"/font-family="Helvetica, Arial, sans-serif"/' \
      >"$to/$(basename -- "${source%.msc}").svg"
done
