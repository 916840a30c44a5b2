// Steps of optimizers as ops. Their numbers (counts, rates) come in tensors, so that a recorded step is the same node whatever they are.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dispatch/operand.h"
#include "tensor/tensor.h"

namespace fl {

// A state list is there always, never checked to be (it switches a form of the step on), or where an option is not 0.
constexpr int kAlways = -1, kOptional = -2;

struct OptimizerRule {
  struct State {
    const char* name;
    int when;  // one of the two above, or the option's place
  };
  // What a step gets: lists in the order of the rule, all of one length, or empty; counts, one per parameter; and the options.
  struct Call {
    TensorList params, grads, states[3];
    std::span<const int64_t> counts;
    std::span<const double> options;
    bool flag(size_t i) const { return options[i] != 0; }
  };
  const char* name;    // in Python
  const char* op;      // in messages
  std::vector<State> states;
  const char* counts;  // what the integers per parameter are; null: there are none
  std::vector<const char*> options;
  void (*step)(const Call&);
};
std::span<const OptimizerRule> optimizer_rules();

// Writes params and states. All tensors of one index have one shape and are row-major; grads and states have the parameter's type. `counts`: int64 [params], or
// of no elements where the rule has none; `options`: float64, as many as the rule has.
void optimizer_step(std::string_view rule, TensorList params, TensorList grads, TensorList first, TensorList second, TensorList third, const Tensor& counts, const Tensor& options);
// The norm of all elements together, 0-d.
Tensor total_norm(TensorList tensors, double norm_type);
// Multiplies all by a number, or a tensor of no axes.
void scale_all_(TensorList tensors, const Operand& factor);

}  // namespace fl
