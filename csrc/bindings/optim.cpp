// flambeau._C.optim: lists of tensors in, one fused pass, versions bumped.
//
// Tensors of one index must share a shape; gradients and state are made to share the parameter's layout
// and type. What does not is copied in (gradients) or through a temporary (everything that is written).
#include "bindings/optim.h"

#include <nanobind/nanobind.h>

#include "autograd/recorded.h"
#include "bindings/args.h"
#include "ops/optim/optim.h"
#include "wrappers/wrap.h"
#include "op/cast.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

using Tensors = std::vector<Tensor>;

Tensors list_of(nb::handle o, const char* what) { return to_tensor_list(o.ptr(), "optim", what); }

void one_device(const char* op, const char* what, size_t i, const Tensor& t, const Tensor& param) {
  if (t.is_meta() || t.device() != param.device())
    raise<DeviceError>(op, ": ", what, "[", i, "] is on ", t.device(), t.is_meta() ? ", which holds no values" : "; expected its parameter's device");
}

// One list of tensors that the step writes: dense stand-ins where a tensor itself can not be stepped over.
struct Written {
  Tensors originals, used;
  const char* op;
  Written(const char* name, nb::handle list, const char* what, const Tensors* like = nullptr) : originals(list_of(list, what)), op(name) {
    for (size_t i = 0; i < originals.size(); ++i) {
      const Tensor& t = originals[i];
      check_inplace(name, t);
      one_device(name, what, i, t, like ? (*like)[i] : t);
      if (like && !(t.sizes() == (*like)[i].sizes()))
        raise<ShapeError>(name, ": ", what, "[", i, "] has shape ", t.sizes(), ", but its parameter has shape ", (*like)[i].sizes(), "; expected equal shapes");
      const bool fits = t.is_contiguous() && (!like || t.dtype() == (*like)[i].dtype());
      used.push_back(fits ? t : like ? op::cast(make_row_major(t), (*like)[i].dtype()) : make_row_major(t));
    }
  }
  static Tensor make_row_major(const Tensor& t) { return t.is_contiguous() ? t : contiguous(t); }
};

Tensors gradients(const char* op, nb::handle list, const Tensors& params) {
  Tensors grads = list_of(list, "grads");
  if (grads.size() != params.size()) raise<ArgumentError>(op, ": ", params.size(), " parameters but ", grads.size(), " gradients");
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!(grads[i].sizes() == params[i].sizes()))
      raise<ShapeError>(op, ": grads[", i, "] has shape ", grads[i].sizes(), ", but its parameter has shape ", params[i].sizes(), "; expected equal shapes");
    one_device(op, "grads", i, grads[i], params[i]);
    grads[i] = contiguous_for_kernel(cast_for_kernel(grads[i], params[i].dtype()));
  }
  return grads;
}

void same_length(const char* op, const Tensors& params, size_t n, const char* what) {
  if (n != params.size()) raise<ArgumentError>(op, ": ", params.size(), " parameters but ", n, " ", what);
}

std::vector<int64_t> counts_of(const char* op, nb::handle list, const char* what) {
  std::vector<int64_t> out;
  for (nb::handle o : nb::borrow<nb::sequence>(list)) out.push_back(to_int(o.ptr(), op, what));
  return out;
}

// Runs the step without the GIL, then notes what was written.
template <class F>
void run(const std::vector<Written*>& lists, F&& f) {
  NoGrad off;
  note_source();
  std::optional<profile::TensorEvent> event;
  if (profile::on()) [[unlikely]] {
    event.emplace(profile::Kind::Optimizer, lists.front()->op);
    for (Written* w : lists) event->input(w->used);
    event->begin();
  }
  {
    GilRelease release;
    graph::settle_here();  // it may read what is written here
    f();
    for (Written* w : lists)
      for (size_t i = 0; i < w->originals.size(); ++i)
        if (!w->used[i].same(w->originals[i])) copy_elements(w->originals[i], w->used[i]);
  }
  if (event) {
    for (Written* w : lists) event->output(w->used);
    event->done();
    event.reset();
  }
  for (Written* w : lists)
    for (const Tensor& t : w->originals) bump_version(w->op, t);
}

// What a step gets: lists in the order of its rule, and its options as they came.
struct Call {
  const Tensors &params, &grads;
  const std::vector<Written>& states;
  const std::vector<int64_t>& counts;
  const std::vector<double>& options;

  const Tensors& state(size_t i) const { return states[i].used; }
  double number(size_t i) const { return options[i]; }
  bool flag(size_t i) const { return options[i] != 0; }
};

// A state list is there always, never checked to be (it switches a form of the step on), or where an option is not 0.
constexpr int kAlways = -1, kOptional = -2;
struct State {
  const char* name;
  int when;  // one of the two above, or the option's place
};

struct Rule {
  const char* name;    // in Python
  const char* op;      // in messages
  std::vector<State> states;
  const char* counts;  // what the integers per parameter are; null: there are none
  std::vector<const char*> options;
  void (*step)(const Call&);
};

void adam(const Call& c) {
  optim::adam(c.params, c.grads, c.state(0), c.state(1), c.state(2), c.counts, c.number(0), c.number(1), c.number(2), c.number(3),
              c.number(4), c.flag(7), c.flag(5), c.flag(6));
}
const std::vector<State> kAdamStates = {{"exp_avgs", kAlways}, {"exp_avg_sqs", kAlways}, {"max_exp_avg_sqs", 5}};
const std::vector<const char*> kAdamOptions = {"lr", "beta1", "beta2", "eps", "weight_decay", "amsgrad", "maximize", "decoupled"};

const Rule kRules[] = {
    {"sgd_", "SGD.step", {{"momentum_buffers", kOptional}}, "first-step flags",
     {"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"},
     [](const Call& c) {
       const std::vector<uint8_t> first(c.counts.begin(), c.counts.end());
       optim::sgd(c.params, c.grads, c.state(0), first, c.number(0), c.number(1), c.number(2), c.number(3), c.flag(4), c.flag(5));
     }},
    {"adam_", "Adam.step", kAdamStates, "steps", kAdamOptions, adam},
    {"adamw_", "AdamW.step", kAdamStates, "steps", kAdamOptions, adam},
    {"rmsprop_", "RMSprop.step", {{"square_avgs", kAlways}, {"grad_avgs", kOptional}, {"momentum_buffers", 4}}, nullptr,
     {"lr", "alpha", "eps", "weight_decay", "momentum", "maximize"},
     [](const Call& c) {
       optim::rmsprop(c.params, c.grads, c.state(0), c.state(1), c.state(2), c.number(0), c.number(1), c.number(2), c.number(3), c.number(4),
                      c.flag(5));
     }},
    {"adagrad_", "Adagrad.step", {{"state_sums", kAlways}}, "steps", {"lr", "lr_decay", "weight_decay", "eps", "maximize"},
     [](const Call& c) {
       optim::adagrad(c.params, c.grads, c.state(0), c.counts, c.number(0), c.number(1), c.number(2), c.number(3), c.flag(4));
     }},
};

void step(const Rule& rule, nb::handle params, nb::handle grads, nb::sequence states, nb::handle counts, nb::sequence options) {
  NoGrad off;
  const char* op = rule.op;
  if (nb::len(states) != rule.states.size() || nb::len(options) != rule.options.size())
    raise<ArgumentError>(op, ": ", nb::len(states), " lists and ", nb::len(options), " options; expected ", rule.states.size(), " and ",
                         rule.options.size());
  std::vector<double> numbers;
  for (nb::handle o : options) numbers.push_back(to_double(o.ptr(), op, rule.options[numbers.size()]));
  Written p(op, params, "params");
  const Tensors g = gradients(op, grads, p.used);
  std::vector<Written> written;
  written.reserve(rule.states.size());
  for (nb::handle list : states) {
    const State& state = rule.states[written.size()];
    written.emplace_back(op, list, state.name, &p.used);
    const bool wanted = state.when == kAlways || (state.when >= 0 && numbers[static_cast<size_t>(state.when)] != 0);
    if (wanted || !written.back().used.empty()) same_length(op, p.used, written.back().used.size(), state.name);
  }
  std::vector<int64_t> each;
  if (rule.counts) {
    each = counts_of(op, counts, rule.counts);
    same_length(op, p.used, each.size(), rule.counts);
  }
  std::vector<Written*> lists = {&p};
  for (Written& w : written) lists.push_back(&w);
  run(lists, [&] { rule.step({p.used, g, written, each, numbers}); });
}

}  // namespace

void init_optim(nb::module_& m) {
  for (const Rule& rule : kRules)
    m.def(rule.name, [&rule](nb::handle params, nb::handle grads, nb::sequence states, nb::handle counts, nb::sequence options) {
      step(rule, params, grads, states, counts, options);
    });
  m.def("total_norm", [](nb::handle tensors, double norm_type) {
    NoGrad off;
    Tensors ts = list_of(tensors, "tensors");
    bool wide = false;
    for (Tensor& t : ts) {
      t = contiguous_for_kernel(t);
      wide = wide || t.dtype() == DType::Float64;
    }
    Tensor out = empty(Dims{}, wide ? DType::Float64 : DType::Float32);
    {
      GilRelease release;
      optim::total_norm(ts, norm_type, out);
    }
    return nb::steal(wrap(std::move(out)));
  });
  m.def("scale_", [](nb::handle tensors, nb::handle factor) {
    NoGrad off;
    Written t("clip_grad", tensors, "tensors");
    if (is_tensor(factor.ptr())) {
      const Tensor f = tensor_of(factor.ptr());
      run({&t}, [&] { optim::scale(t.used, f); });
    } else {
      const double f = to_double(factor.ptr(), "clip_grad", "factor");
      run({&t}, [&] { optim::scale(t.used, f); });
    }
  });
}

}  // namespace fl::py
