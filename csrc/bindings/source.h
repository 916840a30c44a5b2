// Where in the user's program we are: the line that runs, and the calls around it. Errors, Var (engine/var.h), the profiler
// and anomaly mode name them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fl::py {

// Where the package's own Python lies: the profiler names calls outside of it.
void set_own_folder(const char* folder);
// The lines of a stack of profile::Event's, the innermost first: "net.py:33, in forward (`y = x + 1`)".
std::vector<std::string> stack_lines(uint32_t stack);
void init_source();

}  // namespace fl::py
