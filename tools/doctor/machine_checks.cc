// SPDX-License-Identifier: Apache-2.0
// The machine around a recording: what the CPU can do, how steady its clock and load are, what the
// kernel permits, which drivers are there. Drivers are looked for with dlopen, nothing is linked.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <thread>

#include "tools/doctor/checks.h"

namespace opmeter::tools {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<long> number_in(const char* path) {
  const std::optional<std::string> line = first_line(path);
  if (!line) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(line->c_str(), &end, 10);
  if (end == line->c_str() || errno != 0) return std::nullopt;
  return value;
}

/// The words of "flags" (x86) or "Features" (arm) of the first CPU, with blanks around each.
std::string cpu_flags() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("flags", 0) == 0 || line.rfind("Features", 0) == 0) {
      return line.substr(std::min(line.find(':') + 1, line.size())) + " ";
    }
  }
  return " ";
}

bool has_flag(const std::string& flags, const char* flag) {
  return flags.find(fmt::format(" {} ", flag)) != std::string::npos;
}

Check cpu_check(const std::string& flags) {
  Check check{.name = "cpu", .status = CheckStatus::kOk, .detail = "", .fix = ""};
  const bool avx2 = has_flag(flags, "avx2"), fma = has_flag(flags, "fma");
  check.detail = fmt::format("{} CPUs, AVX2 {}, FMA {}", std::thread::hardware_concurrency(),
                             avx2 ? "yes" : "no", fma ? "yes" : "no");
  if (!avx2 || !fma) {
    check.status = CheckStatus::kWarn;
    check.fix = "models compiled for AVX2, like the bundled one, need an x86-64 CPU with AVX2";
  }
  return check;
}

Check clock_check(const std::string& flags) {
  Check check{.name = "clock", .status = CheckStatus::kOk, .detail = "", .fix = ""};
  const std::string source =
      first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
          .value_or("unknown");
#if defined(__x86_64__)
  const bool invariant = has_flag(flags, "constant_tsc") && has_flag(flags, "nonstop_tsc");
  check.detail = fmt::format("{} time-stamp counter, kernel clock source {}",
                             invariant ? "invariant" : "NOT invariant", source);
  if (!invariant) {
    check.status = CheckStatus::kWarn;
    check.fix = "latencies may be wrong while the CPU changes its frequency or sleeps";
  }
#else
  (void)flags;
  check.detail = fmt::format("kernel clock source {}", source);
#endif
  return check;
}

Check perf_check() {
  Check check{.name = "perf", .status = CheckStatus::kOk, .detail = "", .fix = ""};
  const std::optional<long> level = number_in("/proc/sys/kernel/perf_event_paranoid");
  if (!level) {
    check.status = CheckStatus::kWarn;
    check.detail = "perf_event_paranoid cannot be read; nothing here needs perf events yet";
    return check;
  }
  check.detail = fmt::format("perf_event_paranoid = {}", *level);
  if (*level > 2) {
    check.status = CheckStatus::kWarn;
    check.detail += "; nothing here needs perf events yet";
    check.fix = "for hardware counters: sysctl kernel.perf_event_paranoid=2";
  }
  return check;
}

Check ptrace_check() {
  Check check{.name = "ptrace", .status = CheckStatus::kOk, .detail = "", .fix = ""};
  const std::optional<long> scope = number_in("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope) {
    check.detail = "no restriction by Yama";
    return check;
  }
  check.detail = fmt::format("ptrace_scope = {}", *scope);
  if (*scope > 1) {
    check.status = CheckStatus::kWarn;
    check.detail += "; recording starts programs itself and does not need ptrace";
    check.fix = "for debuggers: sysctl kernel.yama.ptrace_scope=1";
  }
  return check;
}

/// The first of the libraries that the loader finds; stays open, for some drivers cannot be closed.
void* open_any(std::initializer_list<const char*> names, std::string* found) {
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
      *found = name;
      return handle;
    }
  }
  return nullptr;
}

template <typename Function>
Function symbol_in(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  Function function = nullptr;
  std::memcpy(&function, &symbol, sizeof function);
  return function;
}

Check cuda_check() {
  Check check{.name = "cuda", .status = CheckStatus::kWarn, .detail = "", .fix = ""};
  std::string name;
  void* driver = open_any({"libcuda.so.1"}, &name);
  if (driver == nullptr) {
    check.detail = "no driver (libcuda.so.1); this build runs models on the CPU only";
    return check;
  }
  // The driver API's C ABI: CUresult is an int, 0 is success.
  const auto init = symbol_in<int (*)(unsigned)>(driver, "cuInit");
  const auto version = symbol_in<int (*)(int*)>(driver, "cuDriverGetVersion");
  const auto count = symbol_in<int (*)(int*)>(driver, "cuDeviceGetCount");
  if (init == nullptr || version == nullptr || count == nullptr) {
    check.detail = "libcuda.so.1 lacks functions of the driver API";
    check.fix = "install the driver anew";
    return check;
  }
  const int error = init(0);
  int driver_version = 0, devices = 0;
  if (error != 0 || version(&driver_version) != 0 || count(&devices) != 0) {
    check.detail = fmt::format("the driver is there but does not start (cuInit: error {})", error);
    check.fix = "see nvidia-smi";
    return check;
  }
  check.status = CheckStatus::kOk;
  check.detail = fmt::format(
      "driver for CUDA {}.{}, {} device{}; this build runs models on the CPU only",
      driver_version / 1000, driver_version % 1000 / 10, devices, devices == 1 ? "" : "s");
  return check;
}

Check cupti_check() {
  Check check{.name = "cupti", .status = CheckStatus::kWarn, .detail = "", .fix = ""};
  std::string name;
  void* library = open_any({"libcupti.so", "libcupti.so.13", "libcupti.so.12",
                            "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"},
                           &name);
  if (library == nullptr) {
    check.detail = "not found (libcupti.so); this version records no device activity yet";
    return check;
  }
  check.status = CheckStatus::kOk;
  const auto version = symbol_in<int (*)(uint32_t*)>(library, "cuptiGetVersion");
  uint32_t number = 0;
  if (version != nullptr && version(&number) == 0) {
    check.detail = fmt::format("{}, API version {}", name, number);
  } else {
    check.detail = name;
  }
  return check;
}

Check opencl_check() {
  Check check{.name = "opencl", .status = CheckStatus::kWarn, .detail = "", .fix = ""};
  std::string name;
  const bool loader = open_any({"libOpenCL.so.1"}, &name) != nullptr;
  size_t drivers = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/etc/OpenCL/vendors", error)) {
    drivers += entry.path().extension() == ".icd" ? 1 : 0;
  }
  if (loader && drivers > 0) check.status = CheckStatus::kOk;
  check.detail = fmt::format(
      "loader {}, {} registered driver{}; this build runs models on the CPU only",
      loader ? "found" : "not found (libOpenCL.so.1)", drivers, drivers == 1 ? "" : "s");
  return check;
}

Check frequency_check() {
  Check check{.name = "frequency", .status = CheckStatus::kOk, .detail = "", .fix = ""};
  const std::optional<std::string> governor =
      first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor) {
    check.detail = "governor not visible here (usual in virtual machines)";
    return check;
  }
  check.detail = "governor " + *governor;
  if (*governor != "performance") {
    check.status = CheckStatus::kWarn;
    check.fix = "for steadier latencies: cpupower frequency-set -g performance";
  }
  return check;
}

Check steal_check() {
  Check check{.name = "steal", .status = CheckStatus::kOk, .detail = "", .fix = ""};
  // proc(5): user nice system idle iowait irq softirq steal, since boot
  std::istringstream in(first_line("/proc/stat").value_or(""));
  std::string label;
  in >> label;
  double total = 0, value = 0, steal = 0;
  for (int field = 1; field <= 8 && in >> value; ++field) {
    total += value;
    if (field == 8) steal = value;
  }
  if (total <= 0) {
    check.detail = "cannot be read";
    return check;
  }
  const double share = 100 * steal / total;
  check.detail = fmt::format("{:.2f} % of CPU time since boot went to other machines", share);
  if (share > 1) {
    check.status = CheckStatus::kWarn;
    check.fix = "expect noisy latencies: this host is shared";
  }
  return check;
}

}  // namespace

std::vector<Check> machine_checks() {
  const std::string flags = cpu_flags();
  return {cpu_check(flags), clock_check(flags), perf_check(),      ptrace_check(), cuda_check(),
          cupti_check(),    opencl_check(),     frequency_check(), steal_check()};
}

}  // namespace opmeter::tools
