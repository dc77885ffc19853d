#!/bin/sh
# Downloads the headers of CUDA 13, of CUDA 12 and of their cuFile from PyPI into build/cuda-headers, if
# they are not there: 9 MB, once. With them tests compare our own declarations (docs/testing.md); where
# they cannot be had, those tests are skipped. Nothing of them is committed: they are NVIDIA's.
set -u
cd "$(dirname "$0")/.."

packages='nvidia-cuda-runtime==13.5.37 nvidia-cufile==1.20.0.107
  nvidia-cuda-runtime-cu12==12.9.79 nvidia-cufile-cu12==1.14.1.1'
folder=build/cuda-headers
made=$folder/packages
if [ -f "$made" ] && [ "$(cat "$made")" = "$packages" ]; then exit 0; fi

fail() { echo "cuda-headers: $*: tests of our own declarations are skipped" >&2; exit 1; }
rm -rf "$folder"
mkdir -p "$folder"
trap 'rm -rf "$folder/new"' EXIT
# A Python without pip has it in virtual environments.
python=python3
if ! python3 -m pip --version >/dev/null 2>&1; then
  python=$folder/new/python/bin/python
  python3 -m venv "$folder/new/python" >/dev/null 2>&1 || fail "there is no Python with pip"
fi
# shellcheck disable=SC2086: they are several words
timeout 300 "$python" -m pip install --quiet --disable-pip-version-check --timeout 30 --retries 1 \
  --no-deps --no-compile --target "$folder/new/all" $packages >"$folder/log" 2>&1 ||
  fail "cannot download: $(tail -n 1 "$folder/log")"
all=$folder/new/all/nvidia
mkdir "$folder/12" && mv "$all"/cuda_runtime/include/* "$all"/cufile/include/* "$folder/12" &&
  mv "$all/cu13/include" "$folder/13" || fail "the packages have no headers where they had them"
printf '%s' "$packages" >"$made"
