// HEDDLE_LOG=graph,fuse,... prints what each stage of the compiler produced, to standard error.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

enum class Log { Graph, Fuse, Remarks, Schedule, Tile, Thread, Llvm, Asm, Run, kCount };

// What is wrong with a list of topics, for people; empty if nothing is.
std::string unknown_topics(std::string_view list);

bool log_enabled(Log topic);
void log_enable(Log topic, bool on);
// Whole messages never interleave, whatever thread writes them.
void log_write(Log topic, std::string_view message);
void warn(std::string_view message);

}  // namespace heddle
