#!/bin/sh
# Installs petstore @VERSION@ into ~/.local, or into PREFIX:
#   curl -fsSL @REPOSITORY@/releases/latest/download/install.sh | PREFIX=/usr/local sh
# Changes nothing before the checksum of the download is verified.
set -eu

version=@VERSION@
# Another address has the same files: a mirror.
release=${PETSTORE_RELEASE:-@REPOSITORY@/releases/download/v$version}

fail() {
    printf 'petstore was not installed: %s\n' "$*" >&2
    exit 1
}

is_installed() {
    command -v "$1" >/dev/null 2>&1
}

platform() {
    system=$(uname -s)
    machine=$(uname -m)
    case $system-$machine in
    Linux-x86_64 | Linux-amd64) echo x86_64-linux ;;
    Linux-aarch64 | Linux-arm64) echo aarch64-linux ;;
    Linux-*) fail "there is no release for $machine, only for x86_64 and aarch64." \
        "Build it from source, as the README says." ;;
    *) fail "it runs on Linux, and this is $system. Use the container image here." ;;
    esac
}

# Redirects must not leave HTTPS: the checksums come from where the program does.
download() {
    if is_installed curl; then
        curl -fsSL --proto-redir =https -o "$work/$1" "$release/$1"
    else
        wget -q -O "$work/$1" "$release/$1"
    fi || fail "cannot download $release/$1. Try again later."
}

sha256() {
    if is_installed sha256sum; then
        sha256sum "$1"
    else
        openssl dgst -sha256 -r "$1"
    fi | cut -d ' ' -f 1
}

put_in_place() {
    mkdir -p "$prefix/bin" &&
        cp -R "$1/share" "$prefix" &&
        cp "$1/bin/petstore" "$prefix/bin/petstore.new" &&
        # A running program can be replaced, but not overwritten.
        mv -f "$prefix/bin/petstore.new" "$prefix/bin/petstore"
}

main() {
    platform=$(platform)
    prefix=${PREFIX:-${HOME:+$HOME/.local}}
    [ -n "$prefix" ] || fail "set HOME, or PREFIX to the folder to install it into."
    is_installed curl || is_installed wget || fail "install curl or wget first."
    is_installed sha256sum || is_installed openssl ||
        fail "install sha256sum or openssl first, to verify the download."
    for tool in tar gzip; do
        is_installed "$tool" || fail "install $tool first."
    done
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM

    name=petstore-$version-$platform
    echo "Downloading petstore $version for $platform ..."
    download SHA256SUMS
    expected=$(sed -n "s/  $name\.tar\.gz\$//p" "$work/SHA256SUMS")
    [ -n "$expected" ] || fail "$release/SHA256SUMS has no checksum of $name.tar.gz."
    download "$name.tar.gz"
    actual=$(sha256 "$work/$name.tar.gz")
    [ "$actual" = "$expected" ] || fail "$name.tar.gz has a wrong checksum: it was damaged or" \
        "changed on its way. Its SHA-256 is $actual instead of $expected."

    tar -xzf "$work/$name.tar.gz" -C "$work"
    error=$("$work/$name/bin/petstore" --version 2>&1 >/dev/null) ||
        fail "it does not run on this machine, but needs glibc 2.17 or newer: $error"
    put_in_place "$work/$name" || fail "cannot write to $prefix. Set PREFIX to another folder."

    echo "Installed petstore $version in $prefix/bin. Start it, and open the link that it prints:"
    echo
    case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) echo "    export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
    echo "    petstore serve"
}

# The last line: of a script that arrives incomplete, nothing runs.
main
