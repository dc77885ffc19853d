#!/usr/bin/env bash
# tools/test.sh [STAGE...]: the test suite, or some of its stages (all_stages below; default_stages
# if none is named). Goes on after a failure, and ends with a line "N passed, N failed" over all
# stages. Exit status 0 only if nothing failed. FUZZ_SECONDS (20) is how long each fuzz target runs,
# JOBS how much runs at once (without it as much as there are processors, of tests half as much again).
# TEST_MINUTES (without it for ever) is after how long nothing new begins: no stage, no test, no file of
# lint, which gets a sixth of the time. What compiles then is ended ten minutes later. The report, and the
# last line, say what was not run for want of time; that is no failure.
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
total_unrun=0
stages_unrun=()
report=()

# Since 1970, in seconds: until when something may begin, which test programs and pytest read as well, and
# when what compiles is ended.
export TEST_DEADLINE=
last_end=
if [[ -n ${TEST_MINUTES:-} ]]; then
  TEST_DEADLINE=$(($(date +%s) + 60 * TEST_MINUTES))
  last_end=$((TEST_DEADLINE + 600))
fi
time_left() { [[ -z $TEST_DEADLINE ]] || (($(date +%s) < TEST_DEADLINE)); }

seconds_until_last_end() {
  local seconds=$((last_end - $(date +%s)))
  echo $((seconds > 0 ? seconds : 1))  # timeout takes 0 for no limit
}
# in_time COMMAND...: ends the command, with all that it has started, at last_end; then the exit status
# is 124 or 137.
in_time() {
  if [[ -z $last_end ]]; then "$@"; return; fi
  timeout --kill-after=30 "$(seconds_until_last_end)" "$@"
}

passed() { stage_passed=$((stage_passed + $1)); }
failed() { stage_failed=$((stage_failed + $1)); }
# unrun NUMBER: of so many tests that there was no time for.
unrun() { stage_unrun=$((stage_unrun + $1)); }

# build LOG COMMAND...: what compiles. If that fails, or there is no time for it, this is counted.
build() {
  local log=$1
  shift
  in_time "$@" >"$log" 2>&1 && return 0
  local status=$?
  if ((status == 124 || status == 137)) && ! time_left; then
    echo "NOT BUILT for want of time: $*"
    stage_unbuilt=1
  else
    show_failure "$log" "$@"
    failed 1
  fi
  return 1
}

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
  show_failure "$log" "$@"
  return 1
}
show_failure() {
  local log=$1
  shift
  echo "failed: $*"
  # ninja says what failed before the end where much runs at once.
  grep -E -A 12 'FAILED:|error:' "$log" | head -n 60
  echo "... the last lines of $log:"
  tail -n 30 "$log"
  # ctest likewise: what each test that failed printed.
  awk '/\*\*\*(Failed|Timeout|Exception|Not Run)/ { left = 25 } left-- > 0' "$log" | head -n 100
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
  if ! build "$folder/build.log" ninja -j "$jobs" -C "$folder" "${targets[@]}"; then return; fi
  filter+=(--exclude-regex "${EXCLUDE:-^$}")
  if ! time_left; then
    unrun "$(ctest --test-dir "$folder" --show-only "${filter[@]}" | sed -n 's/^Total Tests: //p')"
    return
  fi
  local junit=$PWD/$folder/tests.xml
  rm -f "$junit"
  quietly "$folder/test.log" ctest --test-dir "$folder" --output-on-failure --no-tests=error \
    --parallel "$test_jobs" --output-junit "$junit" "${filter[@]}"
  local status=$?
  if [[ ! -s $junit ]]; then failed 1; return; fi
  local tests failures skipped disabled
  tests=$(test_number tests "$junit")
  failures=$(test_number failures "$junit")
  skipped=$(test_number skipped "$junit")
  disabled=$(test_number disabled "$junit")
  # A run that fails without a failed test (no tests, a broken ctest) is a failure as well.
  if ((status != 0 && failures == 0)); then failures=1; fi
  unrun "$(grep -c '\[  SKIPPED \] no time left' "$junit")"
  stage_skipped=$((skipped + disabled))
  passed $((tests - failures - stage_skipped > 0 ? tests - failures - stage_skipped : 0))
  stage_skipped=$((stage_skipped - stage_unrun))
  failed "$failures"
}

stage_release() {
  tools/cuda-headers.sh  # without them a few tests are skipped
  run_tests release build
}
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
  EXCLUDE='^cli\.(Doctor|WithoutEffect)|RandomHostPlans|RunRecorderTest|NoWriteToAnArriving|ChildrenWithThreads|BudgetLeaves' \
    run_tests tsan build-tsan runtime heap cli cuda "platform.($common|$host|$near)"
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
  local seconds=2700
  if [[ -n $last_end ]]; then seconds=$(seconds_until_last_end); fi
  quietly "$log" timeout --foreground --kill-after=60 "$seconds" "$python" -m pytest -v --timeout=400 \
    --junitxml "$junit" "$@"
  if [[ ! -s $junit ]]; then failed 1; return; fi
  local tests failures errors
  tests=$(test_number tests "$junit")
  failures=$(test_number failures "$junit")
  errors=$(test_number errors "$junit")
  stage_skipped=$(test_number skipped "$junit")
  passed $((tests - failures - errors - stage_skipped))
  unrun "$(grep -o 'message="no time left"' "$junit" | wc -l)"
  stage_skipped=$((stage_skipped - stage_unrun))
  failed $((failures + errors))
}

# compile_ahead STAGE...: what they compile, into logs of its own; each stage finds it done, or says why not.
compile_ahead() {
  local stage
  for stage in "$@"; do
    if ! time_left; then return; fi
    case $stage in
      wheel) JOBS=$jobs in_time tools/wheel.sh ;;
      asan) configure asan build-asan && in_time ninja -j "$jobs" -C build-asan ;;
      tsan) configure tsan build-tsan && in_time ninja -j "$jobs" -C build-tsan {runtime,heap,cli,cuda,platform}_test ;;
      fuzz) configure fuzz build-fuzz && in_time ninja -j "$jobs" -C build-fuzz ;;
    esac >"build/ahead-$stage.log" 2>&1
  done
}

# The Python side, and programs under `spillway run`. With the release build's program. Much of their
# time they wait, for programs to start and for pages: meanwhile what is behind them compiles.
stage_python() {
  if ! configure release build; then failed 1; return; fi
  if ! build build/build.log ninja -C build spillway spillway_preload spillway_near; then return; fi
  if ! find_python; then failed 1; return; fi
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
  if ! JOBS=$jobs build build/wheel.log tools/wheel.sh; then return; fi
  if ! find_python; then failed 1; return; fi
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
  local deadline= unlooked=build-lint/not-looked-at
  if [[ -n $TEST_DEADLINE ]]; then
    deadline=$(($(date +%s) + 60 * TEST_MINUTES / 6))
    if ((deadline > TEST_DEADLINE)); then deadline=$TEST_DEADLINE; fi
  fi
  rm -f "$unlooked"
  if JOBS=$jobs LINT_DEADLINE=$deadline tools/lint.sh "$@"; then passed 1; else failed 1; fi
  if [[ -s $unlooked ]]; then unrun "$(wc -l <"$unlooked")"; fi
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
  if ! configure fuzz build-fuzz; then failed 1; return; fi
  if ! build build-fuzz/build.log ninja -j "$jobs" -C build-fuzz "${targets[@]}"; then return; fi
  local target process running=()
  for target in "${targets[@]}"; do
    if ((${#running[@]} >= jobs)); then
      reap "${running[0]}"
      running=("${running[@]:1}")
    fi
    if ! time_left; then unrun 1; continue; fi
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
  stage_unrun=0
  stage_unbuilt=
  echo "== $1 (after ${SECONDS} s)"
  if time_left; then "stage_$1"; else stage_unbuilt=1; fi
  total_passed=$((total_passed + stage_passed))
  total_failed=$((total_failed + stage_failed))
  total_skipped=$((total_skipped + stage_skipped))
  total_unrun=$((total_unrun + stage_unrun))
  local want=
  if ((stage_unrun > 0)); then want="   $stage_unrun NOT RUN for want of time"; fi
  if [[ -n $stage_unbuilt ]]; then
    stages_unrun+=("$1")
    want="   NOTHING of it run for want of time"
  fi
  report+=("$(printf '%-8s %6d passed %4d failed %4d skipped %5d s%s' "$1" "$stage_passed" \
    "$stage_failed" "$stage_skipped" $((SECONDS - start)) "$want")")
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
want=
if ((total_unrun > 0 || ${#stages_unrun[@]} > 0)); then
  echo "NOT EVERYTHING WAS TESTED: after $TEST_MINUTES minutes nothing new began (TEST_MINUTES)."
  want=", $total_unrun not run for want of time"
  if ((${#stages_unrun[@]} > 0)); then want+=", and nothing of ${stages_unrun[*]}"; fi
fi
echo "$total_passed passed, $total_failed failed$want"
((total_failed == 0 && total_passed > 0))
