#!/usr/bin/env bash
# tools/test.sh [STAGE...]: the test suite, or some of its stages (all_stages below; default_stages
# if none is named). Goes on after a failure, and ends with a line "N passed, N failed" over all
# stages. Exit status 0 only if nothing failed. FUZZ_SECONDS (20) is how long each fuzz target runs,
# JOBS how much runs at once (without it as much as there are processors, of tests half as much again).
# Full logs are left in each stage's build folder.
set -uo pipefail
cd "$(dirname "$0")/.."

all_stages=(release format lint python wheel asan tsan fuzz debug lint-all)
# Without debug, which compiles file by file with the release build's compiler, and lint-all: they are
# for once a week. asan has the same assertions; lint looks at what changed.
default_stages=(release format lint python wheel asan tsan fuzz)
jobs=${JOBS:-$(nproc)}
# They wait for disks, links and each other.
test_jobs=${JOBS:-$((jobs + (jobs + 1) / 2))}
fuzz_seconds=${FUZZ_SECONDS:-20}
total_passed=0
total_failed=0
total_skipped=0
report=()

passed() { stage_passed=$((stage_passed + $1)); }
failed() { stage_failed=$((stage_failed + $1)); }

# Paths do not count for what is compiled file by file: another clone of the same source finds what this
# one has compiled. What is compiled several at once has them in it, and is found in this folder only.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# Where clang's sanitizers find the names of what they report.
symbolizer=$(command -v llvm-symbolizer-16)
export ASAN_SYMBOLIZER_PATH=$symbolizer TSAN_OPTIONS="external_symbolizer_path=$symbolizer ${TSAN_OPTIONS:-}"

# configure PRESET FOLDER: also with whatever compiler cache there is; all builds share it. Anew where
# presets have changed: with another compiler cmake would forget what else they say.
configure() {
  local options=()
  if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  mkdir -p "$2"
  if ! cmp -s CMakePresets.json "$2/presets.json"; then options+=(--fresh); fi
  quietly "$2/configure.log" cmake --preset "$1" "${options[@]}" &&
    cp CMakePresets.json "$2/presets.json"
}

# quietly LOG COMMAND...: shows what failed, and the end of the output, only if the command fails.
quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 && return 0
  echo "failed: $*"
  # ninja says what failed before the end where much runs at once.
  grep -E -A 12 'FAILED:|error:' "$log" | head -n 60
  echo "... the last lines of $log:"
  tail -n 30 "$log"
  # ctest likewise: what each test that failed printed.
  awk '/\*\*\*(Failed|Timeout|Exception|Not Run)/ { left = 25 } left-- > 0' "$log" | head -n 100
  return 1
}

# test_number NAME FILE: an attribute of the <testsuite> element that ctest wrote.
test_number() { grep -o -m 1 "\b$1=\"[0-9]*\"" "$2" | tr -dc 0-9; }

# run_tests PRESET FOLDER [LAYER...]: builds and runs all tests, or only those of some layers (LAYER,
# or LAYER.REGEX for some of its tests); without those whose names match EXCLUDE.
run_tests() {
  local preset=$1 folder=$2
  shift 2
  if ! configure "$preset" "$folder"; then failed 1; return; fi
  local targets=(all) filter=()
  if (($# > 0)); then
    targets=()
    local layer known
    known=$(ninja -C "$folder" -t targets all)
    for layer in "$@"; do
      if grep -q "^${layer%%.*}_test: " <<<"$known"; then targets+=("${layer%%.*}_test"); fi
    done
    if ((${#targets[@]} == 0)); then echo "no tests in $*"; failed 1; return; fi
    filter=(--tests-regex "^($(IFS='|'; echo "$*"))\\.")
  fi
  if ! quietly "$folder/build.log" ninja -j "$jobs" -C "$folder" "${targets[@]}"; then failed 1; return; fi
  local junit=$PWD/$folder/tests.xml
  rm -f "$junit"
  quietly "$folder/test.log" ctest --test-dir "$folder" --output-on-failure --no-tests=error \
    --parallel "$test_jobs" --output-junit "$junit" "${filter[@]}" --exclude-regex "${EXCLUDE:-^$}"
  local status=$?
  if [[ ! -s $junit ]]; then failed 1; return; fi
  local tests failures skipped disabled
  tests=$(test_number tests "$junit")
  failures=$(test_number failures "$junit")
  skipped=$(test_number skipped "$junit")
  disabled=$(test_number disabled "$junit")
  # A run that fails without a failed test (no tests, a broken ctest) is a failure as well.
  if ((status != 0 && failures == 0)); then failures=1; fi
  stage_skipped=$((skipped + disabled))
  passed $((tests - failures - stage_skipped > 0 ? tests - failures - stage_skipped : 0))
  failed "$failures"
}

stage_release() { run_tests release build; }
# A child's threads wait for ever where another thread was in the sanitizer's allocator at the fork.
stage_asan() { EXCLUDE='ChildrenWithThreads' run_tests asan build-asan; }
# Unoptimised, with the engine's invariants.
stage_debug() { run_tests debug build-debug; }
# Only these start threads, or a program that does. Not those that put memory into a whole space:
# that the kernel orders what a thread writes before a copy of it is beyond what ThreadSanitizer sees.
# The space's parts are looked at one by one.
stage_tsan() {
  local common='TransferWorkers|TransferLink|StorageIo|Kinds/BlockIoTest|StagingPool|StallClock|Failures'
  local host='FaultReaderTest|From/ForkSnapshotTest|Frames/DevicePagesTest|LaunchMarks'
  local near='NearCopies|NearModes|NearAccess|NearUpdates|NearSchedules'
  # Nor memory that a program writes while it arrives, threads of a child, which it refuses, or what is
  # resident, which its own memory is part of; nor runs, which want libraries that are not built here.
  EXCLUDE='^front\.(Capi|Doctor|WithoutEffect)|RandomHostPlans|RunRecorderTest|NoWriteToAnArriving|ChildrenWithThreads|BudgetLeaves' \
    run_tests tsan build-tsan runtime front cuda "platform.($common|$host|$near)"
}

# Sets `python` to one with what the tests want, which was downloaded meanwhile.
find_python() {
  if [[ -n $fetching ]]; then wait "$fetching"; fi
  fetching=
  python=$(tail -n 1 build/python-env.log)
  [[ -x $python ]] || { cat build/python-env.log; return 1; }
}

# run_pytest NAME WORD...: with a log and results in build/NAME-test.log and build/NAME-tests.xml.
run_pytest() {
  local junit=build/$1-tests.xml log=build/$1-test.log
  shift
  rm -f "$junit"
  # A test that stands still fails, with its stacks; so does what does not even end then.
  quietly "$log" timeout --foreground --kill-after=60 2700 "$python" -m pytest -v --timeout=400 \
    --junitxml "$junit" "$@"
  if [[ ! -s $junit ]]; then failed 1; return; fi
  local tests failures errors
  tests=$(test_number tests "$junit")
  failures=$(test_number failures "$junit")
  errors=$(test_number errors "$junit")
  stage_skipped=$(test_number skipped "$junit")
  passed $((tests - failures - errors - stage_skipped))
  failed $((failures + errors))
}

# compile_ahead STAGE...: what they compile, into logs of its own; each stage finds it done, or says why not.
compile_ahead() {
  local stage
  for stage in "$@"; do
    case $stage in
      wheel) JOBS=$jobs tools/wheel.sh ;;
      asan) configure asan build-asan && ninja -j "$jobs" -C build-asan ;;
      tsan) configure tsan build-tsan && ninja -j "$jobs" -C build-tsan {runtime,front,cuda,platform}_test ;;
      fuzz) configure fuzz build-fuzz && ninja -j "$jobs" -C build-fuzz ;;
    esac >"build/ahead-$stage.log" 2>&1
  done
}

# The Python side, and programs under `spillway run`. With the release build's program. Much of their
# time they wait, for programs to start and for pages: meanwhile what is behind them compiles.
stage_python() {
  if ! configure release build || ! quietly build/build.log ninja -C build spillway spillway_preload spillway_near ||
    ! find_python; then
    failed 1
    return
  fi
  # More than four at once want memory.
  local beside=()
  if "$python" -c 'import xdist' 2>/dev/null; then
    beside=(-n $((test_jobs < 4 ? test_jobs : 4)) --dist worksteal)
  fi
  local behind=" ${stages[*]} "
  read -ra behind <<<"${behind#* python }"
  (renice -n 10 "$BASHPID" >/dev/null; compile_ahead "${behind[@]}") &
  ahead=$!
  run_pytest python "${beside[@]}" --durations=10 tests/python tests/optimizer
  wait "$ahead"
  ahead=
}

# The wheel, in a bare system of another distribution and beside PyTorch.
stage_wheel() {
  if ! JOBS=$jobs quietly build/wheel.log tools/wheel.sh || ! find_python; then failed 1; return; fi
  run_pytest wheel -rs --durations=5 tests/wheel
  grep '^SKIPPED' build/wheel-test.log
  grep -o 'dist/[^/]*\.whl' build/wheel.log | xargs du -h --apparent-size
}

stage_format() {
  local sources
  mapfile -t sources < <(find src tests bench fuzz include examples -name '*.h' -o -name '*.hpp' -o -name '*.cc')
  if clang-format-16 --dry-run --Werror "${sources[@]}"; then passed 1; else failed 1; fi
}

stage_lint() { lint changed; }
stage_lint-all() { lint; }
lint() {
  if ! configure lint build-lint; then failed 1; return; fi
  if JOBS=$jobs tools/lint.sh "$@"; then passed 1; else failed 1; fi
}

# fuzz_one NAME_fuzz: replays the corpus in fuzz/corpus/NAME, then looks for new inputs from there.
# What it finds is left in build-fuzz/findings; build-fuzz/NAME_fuzz FILE replays it.
fuzz_one() {
  local target=$1
  local corpus=fuzz/corpus/${target%_fuzz}
  local found=build-fuzz/corpus/$target
  mkdir -p "$found" build-fuzz/findings
  local inputs=("$found")
  if [[ -d $corpus ]]; then inputs+=("$corpus"); fi
  quietly "build-fuzz/$target.log" "build-fuzz/$target" -max_total_time="$fuzz_seconds" \
    -timeout=10 -rss_limit_mb=1024 -artifact_prefix="build-fuzz/findings/$target-" "${inputs[@]}"
}

stage_fuzz() {
  local targets=()
  mapfile -t targets < <(find fuzz -name '*_fuzz.cc' -exec basename {} .cc \; | sort)
  if ((${#targets[@]} == 0)); then echo "no fuzz targets"; return; fi
  if ! configure fuzz build-fuzz ||
    ! quietly build-fuzz/build.log ninja -j "$jobs" -C build-fuzz "${targets[@]}"; then
    failed 1
    return
  fi
  local target process running=()
  for target in "${targets[@]}"; do
    if ((${#running[@]} >= jobs)); then
      reap "${running[0]}"
      running=("${running[@]:1}")
    fi
    fuzz_one "$target" &
    running+=($!)
  done
  for process in "${running[@]}"; do reap "$process"; done
}
reap() { if wait "$1"; then passed 1; else failed 1; fi; }

run_stage() {
  local start=$SECONDS
  stage_passed=0
  stage_failed=0
  stage_skipped=0
  echo "== $1 (after ${SECONDS} s)"
  "stage_$1"
  total_passed=$((total_passed + stage_passed))
  total_failed=$((total_failed + stage_failed))
  total_skipped=$((total_skipped + stage_skipped))
  report+=("$(printf '%-8s %6d passed %4d failed %4d skipped %5d s' "$1" "$stage_passed" \
    "$stage_failed" "$stage_skipped" $((SECONDS - start)))")
  echo "${report[-1]}"
}

stages=("$@")
if ((${#stages[@]} == 0)); then stages=("${default_stages[@]}"); fi
for stage in "${stages[@]}"; do
  if [[ " ${all_stages[*]} " != *" $stage "* ]]; then
    echo "test.sh: no stage '$stage'; there are: ${all_stages[*]}" >&2
    exit 2
  fi
done
fetching=
ahead=
trap 'kill $fetching $ahead 2>/dev/null' EXIT
# What Python needs is downloaded while others compile.
if [[ " ${stages[*]} " == *" python "* || " ${stages[*]} " == *" wheel "* ]]; then
  mkdir -p build
  if tools/install-deps.sh python; then  # which may ask for a password
    tools/python-env.sh test >build/python-env.log 2>&1 &
  else
    echo "tools/install-deps.sh python has failed" >build/python-env.log
    false &
  fi
  fetching=$!
fi
for stage in "${stages[@]}"; do run_stage "$stage"; done

echo "== all stages (${SECONDS} s, ${total_skipped} tests skipped)"
printf '%s\n' "${report[@]}"
echo "$total_passed passed, $total_failed failed"
((total_failed == 0 && total_passed > 0))
