#!/bin/sh
# install_test.sh CHECK FOLDER BUILD CMAKE: one check of the installed tree in FOLDER/prefix.
#   install     installs BUILD there, and sees that everything is in its place
#   cmake       an outside project that uses find_package
#   pkg_config  an outside C program built with pkg-config's flags
#   run         the installed `spillway run`, with its preloaded library and Python hook
# Run by ctest. Exit status 77: this machine cannot run Spillway.
set -eu

if [ -n "${TEST_DEADLINE:-}" ] && [ "$(date +%s)" -ge "$TEST_DEADLINE" ]; then
  echo "[  SKIPPED ] no time left"
  exit 77
fi
unset TEST_DEADLINE

check=$1 folder=$2 build=$3 cmake=$4
here=$(cd "$(dirname "$0")" && pwd)
prefix=$folder/prefix
libraries=$prefix/lib
export LD_LIBRARY_PATH="$libraries"

fail() { echo "install_test: $*" >&2; exit 1; }

# expect WORD COMMAND...: the command prints this line.
expect() {
  wanted=$1
  shift
  status=0
  printed=$("$@") || status=$?
  if [ "$status" -eq 77 ]; then exit 77; fi
  [ "$status" -eq 0 ] || fail "$* ended with status $status"
  printf '%s\n' "$printed" | grep -qx "$wanted" || fail "$* printed '$printed', not '$wanted'"
}

case $check in
  install)
    rm -rf "$folder"
    mkdir -p "$folder"
    "$cmake" --install "$build" --prefix "$prefix" >"$folder/log"
    for file in bin/spillway lib/libspillway.so lib/libspillway_preload.so lib/libspillway_cuda.so lib/libspillway_near.so \
      include/spillway/spillway.h include/spillway/spillway.hpp \
      include/spillway/near.h include/spillway/near.hpp \
      lib/cmake/spillway/spillwayConfig.cmake lib/cmake/spillway/spillwayConfigVersion.cmake \
      lib/pkgconfig/spillway.pc share/spillway/hook/sitecustomize.py share/spillway/__init__.py \
      share/spillway/operators.py share/spillway/operands.py share/spillway/near/native.py; do
      [ -e "$prefix/$file" ] || fail "$file is not installed"
    done
    # Programs ask for a version, and find it.
    [ -h "$libraries/libspillway.so" ] || fail "libspillway.so names no version"
    # Nobody else's symbols are in it.
    others=$(nm -D --defined-only "$libraries/libspillway.so" | awk '{ print $3 }' |
      grep -v '^spillway[A-Z]' | grep -v '^SPILLWAY_' || true)
    [ -z "$others" ] || fail "libspillway.so also defines $others"
    ;;
  cmake)
    "$cmake" -S "$here" -B "$folder/outside" -DCMAKE_PREFIX_PATH="$prefix" >"$folder/cmake.log"
    "$cmake" --build "$folder/outside" >>"$folder/cmake.log"
    expect 10 "$folder/outside/outside_c"
    expect 10 "$folder/outside/outside_cxx"
    ;;
  pkg_config)
    # A tree that has been moved works, too.
    rm -rf "$folder/moved"
    cp -a "$prefix" "$folder/moved"
    export PKG_CONFIG_PATH="$folder/moved/lib/pkgconfig"
    [ "$(pkg-config --modversion spillway)" = "$(sed -n 's/^Version: //p' \
      "$prefix/lib/pkgconfig/spillway.pc")" ] || fail "pkg-config finds another version"
    # shellcheck disable=SC2046: they are several words
    cc -std=c99 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags spillway) \
      -o "$folder/outside_pc" "$here/outside.c" $(pkg-config --libs spillway)
    LD_LIBRARY_PATH="$folder/moved/lib"
    expect 10 "$folder/outside_pc"
    ;;
  run)
    cc -O1 -o "$folder/plain" "$here/plain.c"
    status=0
    "$prefix/bin/spillway" run --device-memory 16MiB --host-memory 64MiB --json - -- \
      "$folder/plain" >"$folder/run.out" 2>"$folder/run.err" || status=$?
    if grep -q userfaultfd "$folder/run.err"; then exit 77; fi
    [ "$status" -eq 0 ] || fail "spillway run: $(cat "$folder/run.err")"
    grep -qx 56623096 "$folder/run.out" || fail "the program printed $(cat "$folder/run.out")"
    # The program did run in a space.
    cat "$folder/run.out" "$folder/run.err" | grep -q '"page_faults":[1-9]' ||
      fail "no page faults: $(cat "$folder/run.out" "$folder/run.err")"
    # shellcheck disable=SC2016: the program's own shell expands it
    expect "$prefix/share/spillway/hook" env -u PYTHONPATH "$prefix/bin/spillway" run \
      --device-memory 16MiB --host-memory 16MiB -- sh -c 'echo "$PYTHONPATH"'
    ;;
  *) fail "there is no check '$check'" ;;
esac
