# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Sourced by tools/quickstart and tools/test: installs missing Debian or Ubuntu packages and
# configures build/release. Installs only what is missing; asks for sudo only when something is.

build_packages=(build-essential cmake ninja-build pkg-config libfmt-dev libcli11-dev
  nlohmann-json3-dev libunwind-dev libdw-dev libelf-dev libzstd-dev libxxhash-dev libdlpack-dev
  libssl-dev)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev valgrind python3 python3-jsonschema
  binutils libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4)

say() { echo "$(basename "$0"): $*" >&2; }

# install_missing PACKAGE...
install_missing() {
  local package missing=() as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "this is no Debian or Ubuntu system; going on without installing: $*"
    return
  fi
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) == 'install ok installed' ]] ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      say "run as root, or install these first: ${missing[*]}"
      exit 5
    fi
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get install -qq -y --no-install-recommends "${missing[@]}")
  # A fresh system has no package lists, an old one has stale ones: update only when it fails.
  if ! "${install[@]}" >/dev/null 2>&1; then
    if ! { "${as_root[@]}" apt-get update -qq && "${install[@]}" >/dev/null; } >&2; then
      say "apt-get could not install them; see the lines above"
      exit 5
    fi
  fi
}

# configure ON|OFF: build/release with tests and benchmarks or without. Warnings are errors only
# with the compiler that is held clean; a newer one may warn about more.
configure() {
  local werror=OFF
  [[ $(${CXX:-c++} -dumpversion 2>/dev/null) == 12* ]] && werror=ON
  cmake --preset release -DOPMETER_TESTS="$1" -DOPMETER_BENCH="$1" -DOPMETER_WERROR="$werror" \
    >build/configure.log 2>&1 || {
    tail -n 20 build/configure.log >&2
    say "configuring failed; the whole log is build/configure.log"
    exit 3
  }
}
