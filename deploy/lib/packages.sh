# What the build needs from the system. Sourced by deploy/quickstart and deploy/test.
# shellcheck shell=bash

# Headers of the libraries that the agent links, and what fetches the Swift packages.
debian_packages=(
    libsqlite3-dev libcurl4-openssl-dev libssl-dev zlib1g-dev libyaml-dev
    ca-certificates git
)
# What the hub needs on top of that. The gateway's package has no hub in it, and is built without.
# shellcheck disable=SC2034
hub_packages=(libpq-dev)

# What a Swift toolchain itself needs on Debian, as its makers list it.
swift_packages=(
    binutils gcc libc6-dev libcurl4-openssl-dev libedit2 libncurses6 libpython3-dev libsqlite3-0 libstdc++-12-dev libxml2 pkg-config
    tzdata zlib1g-dev
)

# The oldest toolchain that can read Package.swift and build the sources.
swift_version_needed=6.2

missing_packages() {
    local package
    for package in "${debian_packages[@]}"; do
        dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            printf '%s\n' "$package"
    done
}

# Runs a command as root: directly, or with sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "This needs root, and there is no sudo: $*" >&2
        return 1
    fi
}

# Installs the packages that are missing, and only those. Says what it does in one line; the details go to a log.
#
#   install_packages LOG
install_packages() {
    local log=$1 missing
    if ! command -v dpkg-query >/dev/null; then
        echo "not a Debian system: this builds only where these are installed, whatever they are called here: ${debian_packages[*]}"
        return 0
    fi
    mapfile -t missing < <(missing_packages)
    if [ "${#missing[@]}" -eq 0 ]; then
        echo "all ${#debian_packages[@]} Debian packages are there"
        return 0
    fi
    echo "installing ${missing[*]}"
    if ! { as_root apt-get update && as_root env DEBIAN_FRONTEND=noninteractive apt-get install \
        --yes --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "These packages could not be installed. Install them by hand, then begin again:" >&2
        echo "  $(become_root)apt-get install --yes ${missing[*]}" >&2
        return 1
    fi
}

# Prints the toolchain's version, or says how to get one. Callers take the answer into a variable of its own, because the status of a
# command inside the words of another one is lost.
require_swift() {
    local said version lacking
    if ! command -v swift >/dev/null; then
        echo "There is no swift on the PATH. Install Swift $swift_version_needed or newer: https://www.swift.org/install/linux/" >&2
        return 1
    fi
    if ! said=$(swift --version 2>&1); then
        printf '%s\n' "$said" | tail -n 3 >&2
        lacking=$(sed -n 's/.*error while loading shared libraries: \([^:]*\):.*/\1/p' <<<"$said" | head -n 1)
        echo "Swift is here and does not start${lacking:+, because $lacking is missing}. Install what it needs:" >&2
        echo "  $(become_root)apt-get install --yes ${swift_packages[*]}" >&2
        return 1
    fi
    version=$(sed -n 's/.*Swift version \([0-9][0-9.]*\).*/\1/p' <<<"$said" | head -n 1)
    if [ -z "$version" ]; then
        printf '%s\n' "$said" | tail -n 3 >&2
        echo "The swift on the PATH does not say its version: $(command -v swift). Swift $swift_version_needed or newer is needed." >&2
        return 1
    fi
    if [ "$(printf '%s\n' "$swift_version_needed" "$version" | sort -V | head -n 1)" != "$swift_version_needed" ]; then
        echo "Swift $version is too old: $swift_version_needed or newer is needed. See https://www.swift.org/install/linux/" >&2
        return 1
    fi
    echo "Swift $version"
}

# What a person has to write before a command for root.
become_root() {
    if [ "$(id -u)" -ne 0 ]; then echo "sudo "; fi
}
