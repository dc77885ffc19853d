#!/bin/sh
# Prints the path of a Python with PyTorch and transformers, for the demo: python3 if it has them, else
# that of .venv, which is made and filled if need be. `python-env.sh test`: with what the tests of the
# Python side want as well, and in .venv what only some of them want; those are skipped where it cannot
# be had.
set -u
cd "$(dirname "$0")/.."

wanted=${1:-}
modules='torch, transformers' packages='torch==2.13.0 transformers==5.23.0'
if [ "$wanted" = test ]; then
  modules="$modules, pytest, pytest_timeout"
  packages="$packages pytest pytest-timeout pytest-xdist duckdb==2.0.0 polars==2.1.0 scikit-learn==1.9.1
    joblib==1.6.0"
fi
has_all() { "$1" -c "import $modules" >/dev/null 2>&1; }
pip() {
  timeout 2400 .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
}
# Notebooks, trainers and metrics.
has_doors() {
  .venv/bin/python -c 'import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))' \
    accelerate ipykernel jupyter_client lightning prometheus_client
}
add_doors() {
  if [ "$wanted" = test ] && ! has_doors && ! pip --timeout 30 --retries 1 accelerate==1.15.0 \
    ipykernel==7.4.0 jupyter_client==8.10.0 lightning==2.6.6 prometheus_client==0.26.0 >/dev/null 2>&1; then
    echo "python-env: no packages for notebooks, trainers and metrics: their tests are skipped" >&2
  fi
}

for python in python3 .venv/bin/python; do
  if command -v "$python" >/dev/null && has_all "$python"; then
    [ "$python" = python3 ] || add_doors
    "$python" -c 'import sys; print(sys.executable)'
    exit 0
  fi
done
echo "python-env: installing PyTorch and transformers into .venv (some minutes, once)" >&2
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086: they are several words
if ! python3 -m venv .venv >"$log" 2>&1 ||
  ! pip --timeout 60 --retries 5 $packages >>"$log" 2>&1 || ! has_all .venv/bin/python; then
  echo "python-env: cannot make .venv: $(tail -n 1 "$log")" >&2
  exit 1
fi
add_doors
echo "$PWD/.venv/bin/python"
