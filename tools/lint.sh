#!/usr/bin/env bash
# tools/lint.sh [changed]: clang-tidy over src/, with the compile commands of build-lint/; or only over
# what was committed in the LINT_HOURS (3) before the last commit and the working tree have changed, and
# the sources beside changed headers. Files are looked at in the groups in which a build compiles them
# (units): most of what clang-tidy takes for a file is what the file includes. A unit that was clean is not
# looked at again until a file of it, a header of ours that it includes, or the settings change.
# JOBS: how many at once. LINT_DEADLINE, in seconds since 1970: then no more units are begun, what changed
# last is looked at first, and the files of the others are named here and in build-lint/not-looked-at.
set -uo pipefail
cd "$(dirname "$0")/.."

export stamps=build-lint/stamps unlooked=build-lint/not-looked-at
mkdir -p "$stamps"
rm -f "$unlooked"
if [[ ! -e build-lint/compile_commands.json ]]; then cmake --preset lint --log-level=WARNING >&2 || exit 1; fi

# What the verdict on a file depends on, except for the system's headers.
fingerprint() {
  { cat .clang-tidy CMakePresets.json CMakeLists.txt cmake/Layer.cmake tools/lint.sh &&
    g++ -std=c++20 -Isrc -Iinclude -MM "$1" | tr -s ' \\' '\n' | sed "s|^$PWD/||" | grep '^src/' | sort -u | xargs cat; } |
    sha256sum | cut -d ' ' -f 1
}

# lint_one UNIT: a unit is a source, or what CMake has written to include several.
lint_one() {
  local stamp output
  if [[ -n ${LINT_DEADLINE:-} ]] && (($(date +%s) >= LINT_DEADLINE)); then files_of "$1" >>"$unlooked"; return 0; fi
  stamp=$stamps/$(fingerprint "$1") || stamp=
  if [[ -n $stamp && -e $stamp ]]; then return 0; fi
  # The analyzer's shallow mode inlines less of the libraries' templates: a third of the time. Of what a unit
  # includes, its sources as well, the analyzer would look at nothing.
  local included=()
  if [[ $1 != src/* ]]; then included=(--extra-arg=-Xclang --extra-arg=-analyzer-opt-analyze-headers); fi
  output=$(timeout --foreground --kill-after=10 900 clang-tidy-16 -p build-lint --config-file=.clang-tidy --quiet \
    --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=mode=shallow \
    "${included[@]}" "$1" 2>&1)
  local status=$? file
  # Beside others a file may use what it does not include.
  for file in $(files_of "$1"); do
    if ((status == 0)) && [[ $file != "$1" ]]; then
      output=$(g++ -std=c++20 -Isrc -Iinclude -fsyntax-only "$file" 2>&1)
      status=$?
    fi
  done
  if ((status == 0)); then
    if [[ -n $stamp ]]; then touch "$stamp"; fi
    return 0
  fi
  if ((status == 124 || status == 137)); then
    output+="$1: clang-tidy has not ended after 900 s (10 to 300 are usual). "
    output+="Take functions apart that have many optionals and branches (bugprone-unchecked-optional-access)."
  fi
  printf '%s\n' "$output" | grep -v 'warnings generated'
  return 1
}
# files_of UNIT: the sources in it, from src/ on.
files_of() {
  if [[ $1 == src/* ]]; then echo "$1"; else sed -n "s|^#include \"$PWD/\(src/.*\)\"$|\1|p" "$1"; fi
}
export -f fingerprint lint_one files_of

# All of it where the history does not go back so far.
sources() {
  local last base=
  if [[ ${1:-} == changed ]] && last=$(git log -1 --format=%ct); then
    base=$(git rev-list -1 --before="$((last - 3600 * ${LINT_HOURS:-3}))" HEAD)
  fi
  if [[ -z $base ]]; then
    find src -name '*.cc' | sort
    return
  fi
  # --name-only would list those in which only comments have changed, too.
  local changed
  changed=$(git diff -I'^ *//' "$base" -- src | sed -n 's/^diff --git a.* b\///p' | sed 's/\.h$/.cc/' | sort -u)
  # In the order in which they changed, the last first.
  { git diff --name-only HEAD -- src; git log --name-only --format= "$base..HEAD" -- src; echo "$changed"; } |
    sed 's/\.h$/.cc/' | awk '!seen[$0]++' | grep -Fx "$changed" |
    while read -r file; do if [[ $file == *.cc && -e $file ]]; then echo "$file"; fi; done
}

# units: reads sources, and writes the units that have them, in their order; a source by itself where that
# is less to look at.
units() {
  local unit file
  local -A unit_of
  local -a wanted
  while read -r unit; do
    for file in $(files_of "$unit"); do unit_of[$file]=$unit; done
  done < <(sed -n "s#^ *\"file\": \"$PWD/\(src/.*\|build-lint/.*/Unity/.*\)\",\?\$#\1#p" build-lint/compile_commands.json)
  mapfile -t wanted
  for file in "${wanted[@]}"; do echo "${unit_of[$file]:-$file} $file"; done |
    awk '{ unit[NR] = $1; file[NR] = $2; files[$1]++ }
         END { for (i = 1; i <= NR; ++i) print files[unit[i]] < 4 ? file[i] : unit[i] }' | awk '!seen[$0]++'
}

sources "$@" | units |
  xargs -P "${JOBS:-$(nproc)}" -I UNIT bash -c 'set -o pipefail; lint_one UNIT'
status=$?
if [[ -s $unlooked ]]; then
  echo "NOT LOOKED AT for want of time: $(wc -l <"$unlooked") files"
  cat "$unlooked"
fi
exit $status
