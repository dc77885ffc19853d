#!/bin/sh
# python-env.sh [demo]: prints the path of a Python with PyTorch and transformers, and without the word
# also with what the tests of the Python side need: python3 if it has them, else that of .venv, which is
# made and filled if need be.
set -u
cd "$(dirname "$0")/.."

modules='torch, transformers' packages='torch==2.13.0 transformers==5.23.0'
if [ "${1:-}" != demo ]; then
  modules="$modules, pytest, pytest_timeout"
  packages="$packages pytest pytest-timeout pytest-xdist duckdb==2.0.0 polars==2.1.0 scikit-learn==1.9.1
    joblib==1.6.0"
fi
has_all() { "$1" -c "import $modules" >/dev/null 2>&1; }

for python in python3 .venv/bin/python; do
  if command -v "$python" >/dev/null && has_all "$python"; then
    "$python" -c 'import sys; print(sys.executable)'
    exit 0
  fi
done
echo "python-env: installing PyTorch and transformers into .venv (some minutes, once)" >&2
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086: they are several words
if ! python3 -m venv .venv >"$log" 2>&1 ||
  ! timeout 2400 .venv/bin/python -m pip install --quiet --timeout 60 --retries 5 $packages \
    >>"$log" 2>&1 || ! has_all .venv/bin/python; then
  echo "python-env: cannot make .venv: $(tail -n 1 "$log")" >&2
  exit 1
fi
echo "$PWD/.venv/bin/python"
