# SPDX-License-Identifier: Apache-2.0
# System packages (Debian/Ubuntu names in tools/quickstart).
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(dlpack REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(libunwind REQUIRED IMPORTED_TARGET libunwind)
pkg_check_modules(libdw REQUIRED IMPORTED_TARGET libdw libelf)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
