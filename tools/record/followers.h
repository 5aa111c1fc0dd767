// SPDX-License-Identifier: Apache-2.0
// --follow, the recording process's side: keeps spare sessions for children of the program to take,
// and drains each session that was taken into a file of its own until the child is gone.
#ifndef OPMETER_TOOLS_RECORD_FOLLOWERS_H_
#define OPMETER_TOOLS_RECORD_FOLLOWERS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiler/recorder/session.h"
#include "tools/record/record.h"

namespace opmeter::tools {

/// Thread rule: one thread.
class Followers {
 public:
  /// `root` is the main program's session and outlives this.
  Followers(recorder::SessionHeader* root, const RecordOptions& options, double ns_per_tick);
  ~Followers();
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  /// The first spares; before the program starts. Error: the kernel refuses the memory.
  Status start();
  /// Notices children that came, drains, puts new spares out. Returns slots taken.
  uint64_t pass();
  /// A child is still there, or may be about to come: the main program's last forks and execs have
  /// a moment of grace, which begins with the first call.
  bool running();
  /// Takes what is left and closes the files. Children that still run are told to stop recording.
  std::vector<ChildOutcome> finish();

 private:
  struct Child;
  void put_spares_out();
  void welcome(size_t slot, int32_t pid);
  std::string free_name(int32_t pid) const;

  recorder::SessionHeader* root_;
  const RecordOptions& options_;
  double ns_per_tick_;
  std::vector<std::unique_ptr<Child>> slots_;  ///< by index of the table; null = empty
  std::vector<std::pair<uint64_t, ChildOutcome>> finished_;  ///< with their order of appearance
  std::set<std::string> names_;                              ///< files of this recording
  uint64_t order_ = 0;
  uint64_t alone_since_ns_ = 0;  ///< since when nothing runs; 0 = something does
};

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_RECORD_FOLLOWERS_H_
