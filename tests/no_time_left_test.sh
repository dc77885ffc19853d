#!/bin/sh
# no_time_left_test.sh skipped|run PROGRAM: PROGRAM, a test program, runs no test when TEST_DEADLINE is
# past, and a test when it is not. Run by ctest.
set -eu
filter='--gtest_filter=BitTree.*'
case $1 in
  skipped) TEST_DEADLINE=1 "$2" "$filter" | tail -n 1 | grep -qx '\[  SKIPPED ] no time left' ;;
  run) TEST_DEADLINE=99999999999 "$2" "$filter" | grep -q '^\[       OK ]' ;;
esac
