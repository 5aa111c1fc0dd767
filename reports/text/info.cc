// SPDX-License-Identifier: Apache-2.0
// `opmeter info`: facts about a trace file.
#include <fmt/format.h>

#include "reports/text/layout.h"

namespace opmeter::reports {
namespace text {
namespace {

void fact(Page& page, const char* key, const std::string& value) {
  if (!value.empty()) page.line("  " + left(key, 16) + " " + value);
}

}  // namespace

void info(Page& page, const TraceInfo& info) {
  std::string command;
  for (const std::string& word : info.command) command += (command.empty() ? "" : " ") + word;
  page.heading(fmt::format("{}", info.path));
  fact(page, "format", fmt::format("opmeter trace {}.{}", info.version_major, info.version_minor));
  fact(page, "size", fmt::format("{} ({} bytes)", bytes(info.file_bytes), info.file_bytes));
  fact(page, "events", fmt::format("{}", info.events));
  fact(page, "duration", duration(static_cast<double>(info.duration_ns)));
  fact(page, "started", info.started_at);
  fact(page, "command", command);
  for (const auto& [key, value] : info.info) fact(page, key.c_str(), value);
  fact(page, "stacks", fmt::format("{} ({} cut)", info.stacks, info.cut_stacks));
  fact(page, "graphs",
       fmt::format("{} with {}, {}", info.graphs, plural(info.ops, "op"),
                   plural(info.pools, "pool")));
  fact(page, "marks", fmt::format("{}", info.marks));
  fact(page, "threads", fmt::format("{}", info.threads.size()));
  const size_t threads = shown(page.options(), info.threads.size());
  for (size_t i = 0; i < threads; ++i) {
    const TraceInfo::Thread& t = info.threads[i];
    page.line(fmt::format("    {:>3}  tid {}  {}", t.id, t.tid, t.name));
  }
  page.more(info.threads.size() - threads, "threads");
  fact(page, "modules", fmt::format("{}", info.modules.size()));
  const size_t modules = shown(page.options(), info.modules.size());
  for (size_t i = 0; i < modules; ++i) {
    const TraceInfo::Module& m = info.modules[i];
    page.line("    " + left(m.build_id.empty() ? "no build id" : m.build_id, 13) + " " +
              cut_middle(m.path, page.width() - 30) + (m.unloaded ? "  (unloaded)" : ""));
  }
  page.more(info.modules.size() - modules, "modules");
  if (info.complete && info.lost_events == 0 && info.damaged_blocks == 0) {
    page.good("  complete: no event lost, no block damaged");
    return;
  }
  page.warning(fmt::format("! {}: lost events {}, damaged blocks {}{}",
                           info.complete ? "complete" : "not complete", info.lost_events,
                           info.damaged_blocks, info.note.empty() ? "" : "; " + info.note));
}

}  // namespace text

std::string render_text(const TraceInfo& info, const TextOptions& options) {
  text::Page page(options);
  text::info(page, info);
  return page.take();
}

}  // namespace opmeter::reports
