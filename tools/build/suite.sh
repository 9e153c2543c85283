#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a test program; 77 if nothing failed and some test was skipped. See suites.py.
output=$("$@" 2>&1)
code=$?
printf '%s\n' "$output"
if [ $code -eq 0 ]; then
  case $output in *'[  SKIPPED ]'*) exit 77 ;; esac
fi
exit $code
