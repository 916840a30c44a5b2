// The C++ forms of the op table's argument types.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "dispatch/generator.h"
#include "dispatch/operand.h"
#include "tensor/tensor.h"

namespace fl {

// A list default that outlives the call: int_list<1, 1>().
template <int64_t... Values>
IntList int_list() {
  static constexpr int64_t values[] = {Values...};
  return {values, sizeof...(Values)};
}

}  // namespace fl
