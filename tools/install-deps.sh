#!/bin/sh
# Installs what something here needs on Debian 12, if it is missing:
#   install-deps.sh build    what `make build` compiles and configures
#   install-deps.sh demo     the program, and Python for the demo; the same makes a wheel
#   install-deps.sh python   Python, and the programs that its tests run under Spillway
#   install-deps.sh test     what the other stages of the tests compile and run
# Asks apt for nothing when nothing is missing. Needs root, or sudo, only when something is.
set -u

# A tool counts as present if the command is found, wherever it came from; a library if its Debian
# package is installed.
build_tools='cmake:cmake ninja:ninja-build g++:g++ make:make pkg-config:pkg-config gnuplot:gnuplot-nox'
program_libraries='libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libzstd-dev
  zlib1g-dev libexpected-dev liburing-dev libhwy-dev libxxhash-dev'
build_libraries="$program_libraries libgtest-dev libgmock-dev libbenchmark-dev"
test_tools='git:git ccache:ccache clang++-16:clang-16 clang-format-16:clang-format-16
  clang-tidy-16:clang-tidy-16 llvm-symbolizer-16:llvm-16'
test_libraries='libclang-rt-16-dev libopenblas-dev'

# Python itself, and what its virtual environments need.
python_tools='python3:python3'
python_libraries='python3-venv'
stranger_tools='fio:fio xz:xz-utils zstd:zstd sqlite3:sqlite3 redis-server:redis-server
  memtester:memtester stress-ng:stress-ng identify:imagemagick bzip2:bzip2 openssl:openssl'
stranger_libraries='libjemalloc2 libtcmalloc-minimal4'

# A Python that makes environments by itself needs no package for that.
if python3 -c 'import venv, ensurepip' 2>/dev/null; then
  python_tools='' python_libraries=''
fi

case "${1:-build}" in
  build) tools=$build_tools libraries=$build_libraries ;;
  demo) tools="$build_tools $python_tools" libraries="$program_libraries $python_libraries" ;;
  python) tools="$python_tools $stranger_tools" libraries="$python_libraries $stranger_libraries" ;;
  test) tools="$build_tools $test_tools" libraries="$build_libraries $test_libraries" ;;
  *) echo "install-deps: '$1' is none of 'build', 'demo', 'python' and 'test'" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install-deps: this is not Debian, so nothing is installed; the names of what is needed are in $0" >&2
  exit 0
fi

missing=
for tool in $tools; do
  command -v "${tool%%:*}" >/dev/null || missing="$missing ${tool#*:}"
done
installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $libraries 2>/dev/null)
for library in $libraries; do
  printf '%s\n' "$installed" | grep -qx "$library installed" || missing="$missing $library"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-deps: cannot install$missing: not root, and there is no sudo; run as root: apt-get install$missing" >&2
    exit 1
  fi
  # Without a terminal nobody can type a password.
  if [ -t 0 ]; then as_root=sudo; else as_root='sudo -n'; fi
fi

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
apt() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" \
    >"$log" 2>&1
}
echo "install-deps: installing$missing"
# Package lists may be there and fresh enough; where they are not, fetch them and try again.
if ! apt install --yes --no-install-recommends $missing; then
  if ! apt update || ! apt install --yes --no-install-recommends $missing; then
    reason=$(grep -m 1 -E '^(E|sudo):' "$log" || tail -n 1 "$log")
    echo "install-deps: cannot install$missing: ${reason:-apt-get failed} (is there a network?)" >&2
    exit 1
  fi
fi
