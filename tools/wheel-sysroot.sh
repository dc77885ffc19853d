#!/usr/bin/env bash
# tools/wheel-sysroot.sh FOLDER: an older C library's headers and stubs (Debian 11: glibc 2.31), with the
# headers and archives of what this machine has installed to build Spillway with. Downloads three
# packages; needs no root, and leaves the machine's own packages alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
packages='libfmt-dev libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libexpected-dev libzstd-dev
  zlib1g-dev liburing-dev libhwy-dev libxxhash-dev linux-libc-dev'
stamp=$(sha256sum "$0" "$here/debian-packages.sh"; dpkg-query -W $packages)
if [[ -f $folder/stamp && $(<"$folder/stamp") == "$stamp" ]]; then exit 0; fi
rm -rf "$folder"
mkdir -p "$folder"

"$here/debian-packages.sh" bullseye "$folder/packages" libc6 libc6-dev libgcc-s1
for package in "$folder"/packages/*.deb; do dpkg-deb -x "$package" "$folder"; done
rm -rf "$folder/packages"
# Absolute links would lead to this machine's libraries.
find "$folder" -type l -lname '/*' -printf '%p %l\n' |
  while read -r link target; do ln -sfr "$folder$target" "$link"; done

# New kernels' headers instead of old ones, and the libraries'. Names are copied with what they lead to.
{
  dpkg-query -L $packages | grep -E '^/usr/(include|share/(cmake|pkgconfig)|lib)/'
  # Of these there are no archives; nothing of them stays in what is linked (--as-needed).
  ls /usr/lib/x86_64-linux-gnu/lib{fmt,tomlplusplus}.so.*
} | while read -r file; do if [[ ! -d $file ]]; then printf '%s\n' "${file#/}"; fi; done |
  tar -C / -c --no-recursion -T - | tar -C "$folder" -x
# New kernels' system calls have names.
cp {,"$folder"}/usr/include/x86_64-linux-gnu/bits/syscall.h
printf '%s\n' "$stamp" >"$folder/stamp"
