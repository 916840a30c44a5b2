#include "wrappers/optimizer.h"

#include "autograd/meta.h"
#include "graph/recorder.h"
#include "ops/optim/optim.h"
#include "wrappers/wrap.h"

namespace fl {
namespace {

using Call = OptimizerRule::Call;

void adam(const Call& c) {
  optim::adam(c.params, c.grads, c.states[0], c.states[1], c.states[2], c.counts, c.options[0], c.options[1], c.options[2], c.options[3],
              c.options[4], c.flag(7), c.flag(5), c.flag(6));
}
const std::vector<OptimizerRule::State> kAdamStates = {{"exp_avgs", kAlways}, {"exp_avg_sqs", kAlways}, {"max_exp_avg_sqs", 5}};
const std::vector<const char*> kAdamOptions = {"lr", "beta1", "beta2", "eps", "weight_decay", "amsgrad", "maximize", "decoupled"};

const OptimizerRule kRules[] = {
    {"sgd_", "SGD.step", {{"momentum_buffers", kOptional}}, "first-step flags",
     {"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"},
     [](const Call& c) {
       const std::vector<uint8_t> first(c.counts.begin(), c.counts.end());
       optim::sgd(c.params, c.grads, c.states[0], first, c.options[0], c.options[1], c.options[2], c.options[3], c.flag(4), c.flag(5));
     }},
    {"adam_", "Adam.step", kAdamStates, "steps", kAdamOptions, adam},
    {"adamw_", "AdamW.step", kAdamStates, "steps", kAdamOptions, adam},
    {"rmsprop_", "RMSprop.step", {{"square_avgs", kAlways}, {"grad_avgs", kOptional}, {"momentum_buffers", 4}}, nullptr,
     {"lr", "alpha", "eps", "weight_decay", "momentum", "maximize"},
     [](const Call& c) {
       optim::rmsprop(c.params, c.grads, c.states[0], c.states[1], c.states[2], c.options[0], c.options[1], c.options[2], c.options[3],
                      c.options[4], c.flag(5));
     }},
    {"adagrad_", "Adagrad.step", {{"state_sums", kAlways}}, "steps", {"lr", "lr_decay", "weight_decay", "eps", "maximize"},
     [](const Call& c) {
       optim::adagrad(c.params, c.grads, c.states[0], c.counts, c.options[0], c.options[1], c.options[2], c.options[3], c.flag(4));
     }},
};

const OptimizerRule& rule_of(std::string_view name) {
  for (const OptimizerRule& rule : kRules)
    if (name == rule.name) return rule;
  raise<ArgumentError>("optimizer_step: rule = '", name, "'; expected sgd_, adam_, adamw_, rmsprop_ or adagrad_");
}

void run_step(std::string_view name, TensorList params, TensorList grads, TensorList first, TensorList second, TensorList third, const Tensor& counts, const Tensor& options) {
  const OptimizerRule& rule = rule_of(name);
  const Call call{params, grads, {first, second, third}, {counts.data<int64_t>(), static_cast<size_t>(counts.numel())},
                  {options.data<double>(), static_cast<size_t>(options.numel())}};
  for (size_t i = 0; i < rule.states.size(); ++i)
    if (const auto& state = rule.states[i]; state.when >= 0 && call.flag(static_cast<size_t>(state.when)) && call.states[i].size() != params.size())
      raise<ArgumentError>(rule.op, ": ", params.size(), " parameters but ", call.states[i].size(), " ", state.name);
  rule.step(call);
}

using graph::Unbox;
const graph::OpInfo info_optimizer_step{
    "optimizer_step", "optimizer_step",
    "optimizer_step(str rule, Tensor[] params, Tensor[] grads, Tensor[] first, Tensor[] second, Tensor[] third, Tensor counts, Tensor options) -> ()",
    "s L L L L L T T ", 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5, 0,
    [](const graph::Frame& f) {
      run_step(Unbox<std::string_view>::get(f, 0), f.list(1), f.list(2), f.list(3), f.list(4), f.list(5), f.tensor(6), f.tensor(7));
    },
    nullptr};
const graph::OpInfo info_total_norm{"total_norm", "total_norm", "total_norm(Tensor[] tensors, float norm_type) -> Tensor y", "L d ", 0, 1,
                                    [](const graph::Frame& f) { optim::total_norm(f.list(0), Unbox<double>::get(f, 1), f.out(0)); }, nullptr};
void run_scale(TensorList tensors, const Operand& factor) {
  if (factor.is_tensor()) optim::scale(tensors, factor.tensor());
  else optim::scale(tensors, factor.number().as_double());
}
const graph::OpInfo info_scale_all_{"scale_all_", "scale_all_", "scale_all_(Tensor[] tensors, Operand factor) -> ()", "L O ", 1, 0,
                                    [](const graph::Frame& f) { run_scale(f.list(0), Unbox<const Operand&>::get(f, 1)); }, nullptr};

void check_list(const char* op, const char* what, TensorList list, TensorList params, bool written) {
  if (list.size() != params.size()) raise<ArgumentError>(op, ": ", params.size(), " parameters but ", list.size(), " ", what);
  for (size_t i = 0; i < list.size(); ++i) {
    const Tensor &x = list[i], &p = params[i];
    if (!(x.sizes() == p.sizes()) || x.dtype() != p.dtype() || x.device() != p.device() || x.is_meta() || !x.is_contiguous())
      raise<ShapeError>(op, ": ", what, "[", i, "] is a ", x.dtype(), " ", x.sizes(), " on ", x.device(), " for a parameter ", p.dtype(), " ", p.sizes(),
                        "; expected its type, shape and device, row-major");
    if (written) check_inplace(op, x);
  }
}

}  // namespace

std::span<const OptimizerRule> optimizer_rules() { return kRules; }

void optimizer_step(std::string_view name, TensorList params, TensorList grads, TensorList first, TensorList second, TensorList third, const Tensor& counts, const Tensor& options) {
  const OptimizerRule& rule = rule_of(name);
  const NoGrad off;
  if (options.dtype() != DType::Float64 || options.numel() != static_cast<int64_t>(rule.options.size()) || !options.is_contiguous() || options.is_meta())
    raise<ArgumentError>(rule.op, ": options are a ", options.dtype(), " ", options.sizes(), "; expected float64 [", rule.options.size(), "]");
  const int64_t n_counts = rule.counts ? static_cast<int64_t>(params.size()) : 0;
  if (counts.dtype() != DType::Int64 || counts.numel() != n_counts || !counts.is_contiguous() || counts.is_meta())
    raise<ArgumentError>(rule.op, ": counts are a ", counts.dtype(), " ", counts.sizes(), "; expected int64 [", n_counts, "]");
  check_list(rule.op, "params", params, params, true);
  check_list(rule.op, "grads", grads, params, false);
  const TensorList lists[] = {first, second, third};
  for (size_t i = 0; i < 3; ++i) {
    const bool must = i < rule.states.size() && rule.states[i].when == kAlways;
    if (must || !lists[i].empty()) check_list(rule.op, i < rule.states.size() ? rule.states[i].name : "a list beyond its states", i < rule.states.size() ? lists[i] : TensorList(), params, true);
  }
  if (graph::recording()) graph::record(info_optimizer_step, false, {}, name, params, grads, first, second, third, counts, options);
  else run_step(name, params, grads, first, second, third, counts, options);
  for (const TensorList& list : {params, first, second, third})
    for (const Tensor& x : list) bump_version(rule.op, x);
}

Tensor total_norm(TensorList tensors, double norm_type) {
  const NoGrad off;
  bool wide = false;
  for (const Tensor& x : tensors) {
    if (!x.is_contiguous() || !is_float(x.dtype()) || x.is_meta())
      raise<ArgumentError>("total_norm: got a ", x.dtype(), " ", x.sizes(), " on ", x.device(), "; expected row-major floating point tensors with values");
    wide = wide || x.dtype() == DType::Float64;
  }
  Tensor out = empty(Dims{}, wide ? DType::Float64 : DType::Float32);
  if (graph::recording()) graph::record(info_total_norm, false, {&out}, tensors, norm_type);
  else optim::total_norm(tensors, norm_type, out);
  return out;
}

void scale_all_(TensorList tensors, const Operand& factor) {
  const NoGrad off;
  if (factor.is_tensor() && (factor.tensor().numel() != 1 || factor.tensor().is_meta()))
    raise<ShapeError>("clip_grad: factor has shape ", factor.tensor().sizes(), "; expected one element");
  check_list("clip_grad", "tensors", tensors, tensors, true);
  if (graph::recording()) graph::record(info_scale_all_, false, {}, tensors, factor);
  else run_scale(tensors, factor);
  for (const Tensor& x : tensors) bump_version("clip_grad", x);
}

}  // namespace fl
