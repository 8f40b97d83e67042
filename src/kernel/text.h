// What printer and parser agree on.
#pragma once

#include <string_view>

#include "kernel/ir.h"

namespace heddle::kernel {

// Words of the language, and d0, d1, ... (coordinates), v0, v1, ... (bound variables): no names for other variables.
bool is_reserved_name(std::string_view name);
std::string type_text(const Type& type, Level level);

// "%5 = load %3": raw numbers, for messages about kernels that may be too broken to print.
std::string describe(const Inst& inst);

}  // namespace heddle::kernel
