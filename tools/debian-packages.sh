#!/usr/bin/env bash
# tools/debian-packages.sh RELEASE FOLDER PACKAGE...: downloads packages of another Debian release, from
# where this machine's own come from, into FOLDER. With --with-dependencies as first word also what they
# need. Needs no root, and leaves the machine's own packages alone.
set -euo pipefail
dependencies=false
if [[ $1 == --with-dependencies ]]; then
  dependencies=true
  shift
fi
release=$1 folder=$2
shift 2
fail() { echo "debian-packages: $*" >&2; exit 1; }
command -v apt-get >/dev/null || fail "there is no apt-get: this needs Debian"

# From where this machine's own release comes, whether or not its lists are here; with the key that all of
# Debian's releases have.
# shellcheck disable=SC1091: it is the machine's
. /etc/os-release
place=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
  sed -n "s/^${VERSION_CODENAME:-none} //p" | head -n 1)
[[ ${ID:-} == debian && -n $place ]] || fail "this machine's packages are not Debian's"
mkdir -p "$folder"/{apt/lists/partial,partial}
folder=$(cd "$folder" && pwd)
printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$place" "$release" \
  >"$folder/apt/sources.list"
: >"$folder/apt/status"
apt() {
  apt-get -qq -o Dir::State="$folder/apt" -o Dir::State::lists="$folder/apt/lists" \
    -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt" \
    -o Dir::Cache::archives="$folder" -o Dir::Etc::sourcelist="$folder/apt/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
    -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=false -o Acquire::Retries=5 \
    -o Acquire::Languages=none -o Debug::NoLocking=true "$@"
}
log=$folder/apt/log
if ! apt update >"$log" 2>&1; then fail "no packages of $release: $(tail -n 1 "$log")"; fi
if $dependencies; then
  command=(install --yes --download-only "$@")
else
  command=(download "$@")
fi
if ! (cd "$folder" && apt "${command[@]}") >"$log" 2>&1; then
  fail "cannot download $*: $(tail -n 1 "$log")"
fi
rm -rf "$folder/apt" "$folder/partial" "$folder/lock"
