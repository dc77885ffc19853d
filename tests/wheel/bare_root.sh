#!/usr/bin/env bash
# bare_root.sh make FOLDER: a system of Debian 11 (glibc 2.31, Python 3.9) with Python and hardly anything
# else, from its packages; nothing in it is configured.
# bare_root.sh enter FOLDER COMMAND...: runs a command in it, with /proc and /dev, and nothing of this
# machine's environment. Root's, or a user's that may make namespaces.
# Exit status 77: this machine can make none; a line says why.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
what=$1 root=$2
shift 2

# Mounts that end with the command.
apart() {
  local root_there=()
  [[ $(id -u) -eq 0 ]] || root_there=(--map-root-user)
  unshare "${root_there[@]}" --mount "$@"
}

case $what in
  make)
    packages='python3-venv dash coreutils grep'
    stamp=$(sha256sum "$0"; id -u)
    if [[ -f $root.stamp && $(<"$root.stamp") == "$stamp" ]]; then exit 0; fi
    if ! command -v unshare >/dev/null || ! apart sh -c 'mount -t tmpfs none /mnt' 2>/dev/null; then
      echo "bare_root: a bare system wants namespaces (unshare) and mounts, which this machine does not allow"
      exit 77
    fi
    rm -rf "$root" "$root.packages" "$root.stamp"
    # shellcheck disable=SC2086: they are several words
    "$here/../../tools/debian-packages.sh" --with-dependencies bullseye "$root.packages" $packages
    mkdir -p "$root"
    for package in "$root.packages"/*.deb; do dpkg-deb -x "$package" "$root"; done
    rm -rf "$root.packages"
    # What packages' own scripts would do.
    [[ -e $root/bin/sh ]] || ln -s dash "$root/bin/sh"
    mkdir -p "$root/proc" "$root/dev" "$root/tmp"
    printf '%s\n' "$stamp" >"$root.stamp"
    ;;
  enter)
    # shellcheck disable=SC2016: the inner shell expands it
    apart sh -ec 'mount --rbind /proc "$0/proc"; mount --rbind /dev "$0/dev"
      exec env -i PATH=/usr/sbin:/usr/bin:/bin HOME=/tmp LC_ALL=C.UTF-8 chroot "$0" "$@"' "$root" "$@"
    ;;
esac
