#!/usr/bin/env bash
# Runs the end-to-end tests with every daemon in the sandbox that the service's unit describes. See README.md.
#   sandbox.sh [ARGUMENT OF PYTEST]...
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)
cd "$project"
for needed in bwrap systemd-analyze; do
  command -v "$needed" >/dev/null || { echo "NOT TESTED: the sandbox, there is no $needed here"; exit 1; }
done
files=()
for suite in daemon cli bad_input in_flight redaction receipts api_fuzz transfer upgrade doctor ingest wrap; do
  files+=("tests/end_to_end/test_$suite.py")
done
.venv/bin/python -m pytest tests/system
.venv/bin/python -m pytest -p tests.system.sandboxed_daemons "${files[@]}" "$@"
