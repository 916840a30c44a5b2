// flambeau._C.optim: lists of tensors in, one fused pass, versions bumped.
//
// Tensors of one index must share a shape; gradients and state are made to share the parameter's layout
// and type. What does not is copied in (gradients) or through a temporary (everything that is written).
#include "bindings/optim.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>

#include "autograd/recorded.h"
#include "bindings/args.h"
#include "graph/program.h"
#include "ops/optim/optim.h"
#include "wrappers/native.h"
#include "wrappers/optimizer.h"
#include "wrappers/wrap.h"
#include "op/abs.h"
#include "op/cast.h"
#include "op/view_as_real.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

using Tensors = std::vector<Tensor>;

// A complex parameter is stepped over as the real numbers that it is made of, and so are its gradient and its state.
Tensors list_of(nb::handle o, const char* what) {
  Tensors list = to_tensor_list(o.ptr(), "optim", what);
  for (Tensor& t : list)
    if (is_complex(t.dtype())) t = op::view_as_real(t);
  return list;
}

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
    if (!graph::recording()) grads[i] = contiguous_for_kernel(cast_for_kernel(grads[i], params[i].dtype()));
    else if (!grads[i].is_contiguous() || grads[i].dtype() != params[i].dtype()) grads[i] = op::cast(make_contiguous(grads[i]), params[i].dtype());
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

// Whether the lists can be written where they are, by an op that is recorded.
bool recorded(const std::vector<Written*>& lists) {
  return graph::recording() && std::all_of(lists.begin(), lists.end(), [](const Written* w) {
           return std::equal(w->used.begin(), w->used.end(), w->originals.begin(), [](const Tensor& a, const Tensor& b) { return a.same(b); });
         });
}

// Counts and options of a step that is recorded. A program reads them where they lie: who runs it again fills them anew.
struct Cell {
  Tensor counts, options;

  void fill(const std::vector<int64_t>& n, const std::vector<double>& values) {
    put(counts, DType::Int64, n.data(), n.size());
    put(options, DType::Float64, values.data(), values.size());
  }

 private:
  static void put(Tensor& to, DType dtype, const void* values, size_t count) {
    const size_t size_bytes = count * 8;
    // What was recorded and not run yet reads the old ones.
    if (!to.defined() || to.numel() != static_cast<int64_t>(count) || to.storage().readers().load() > 0) {
      const Dims sizes{static_cast<int64_t>(count)};
      if (to.defined()) graph::objects_version.fetch_add(1, std::memory_order_relaxed);  // programs may read it
      to = Tensor(make_ref<TensorImpl>(Storage::allocate_now(size_bytes, Device{}), sizes, row_major(sizes), 0, dtype));
    }
    if (size_bytes > 0) std::memcpy(to.data(), values, size_bytes);
  }
};

std::vector<double> options_of(const OptimizerRule& rule, nb::sequence options) {
  if (nb::len(options) != rule.options.size()) raise<ArgumentError>(rule.op, ": ", nb::len(options), " options; expected ", rule.options.size());
  std::vector<double> numbers;
  for (nb::handle o : options) numbers.push_back(to_double(o.ptr(), rule.op, rule.options[numbers.size()]));
  return numbers;
}

void step(const OptimizerRule& rule, nb::handle params, nb::handle grads, nb::sequence states, nb::handle counts, nb::sequence options, Cell* cell) {
  NoGrad off;
  const char* op = rule.op;
  if (nb::len(states) != rule.states.size()) raise<ArgumentError>(op, ": ", nb::len(states), " lists; expected ", rule.states.size());
  const std::vector<double> numbers = options_of(rule, options);
  Written p(op, params, "params");
  const Tensors g = gradients(op, grads, p.used);
  std::vector<Written> written;
  written.reserve(3);
  for (nb::handle list : states) {
    const auto& state = rule.states[written.size()];
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
  auto used = [&](size_t i) { return i < written.size() ? TensorList(written[i].used) : TensorList(); };
  if (recorded(lists)) {
    Cell own;
    if (!cell) cell = &own;
    cell->fill(each, numbers);
    note_source();
    const GilRelease release;
    return optimizer_step(rule.name, p.used, g, used(0), used(1), used(2), cell->counts, cell->options);
  }
  run(lists, [&] { rule.step({p.used, g, {used(0), used(1), used(2)}, each, numbers}); });
}

}  // namespace

void init_optim(nb::module_& m) {
  nb::class_<Cell>(m, "Cell").def(nb::init<>());
  for (const OptimizerRule& rule : optimizer_rules()) {
    m.def(rule.name, [&rule](nb::handle params, nb::handle grads, nb::sequence states, nb::handle counts, nb::sequence options, Cell* cell) {
      step(rule, params, grads, states, counts, options, cell);
    }, nb::arg("params"), nb::arg("grads"), nb::arg("states"), nb::arg("counts"), nb::arg("options"), nb::arg("cell").none() = nb::none());
    // What such a step would put into its cell.
    m.def((std::string("fill_") + rule.name).c_str(), [&rule](Cell& cell, nb::handle counts, nb::sequence options) {
      cell.fill(rule.counts ? counts_of(rule.op, counts, rule.counts) : std::vector<int64_t>(), options_of(rule, options));
    });
  }
  m.def("optimizer_step", [](const std::string& rule, nb::handle params, nb::handle grads, nb::handle first, nb::handle second, nb::handle third, nb::handle counts, nb::handle options) {
    const Tensors p = list_of(params, "params"), g = list_of(grads, "grads"), a = list_of(first, "first"), b = list_of(second, "second"), c = list_of(third, "third");
    const Tensor n = plain_tensor(counts.ptr(), "optimizer_step", "counts"), values = plain_tensor(options.ptr(), "optimizer_step", "options");
    note_source();
    const GilRelease release;
    optimizer_step(rule, p, g, a, b, c, n, values);
  }, nb::arg("rule"), nb::arg("params"), nb::arg("grads"), nb::arg("first"), nb::arg("second"), nb::arg("third"), nb::arg("counts"), nb::arg("options"));
  m.def("total_norm", [](nb::handle tensors, double norm_type) {
    NoGrad off;
    Tensors ts = to_tensor_list(tensors.ptr(), "total_norm", "tensors");
    for (Tensor& t : ts)
      if (is_complex(t.dtype())) t = op::abs(t);
    for (Tensor& t : ts) t = graph::recording() ? make_contiguous(t) : contiguous_for_kernel(t);
    note_source();
    Tensor out;
    {
      const GilRelease release;
      out = total_norm(ts, norm_type);
    }
    return nb::steal(wrap(std::move(out)));
  }, nb::arg("tensors"), nb::arg("norm_type"));
  auto scale = [](nb::handle tensors, nb::handle factor) {
    NoGrad off;
    Written t("clip_grad", tensors, "tensors");
    const Tensor by = is_tensor(factor.ptr()) ? tensor_of(factor.ptr()) : Tensor();
    const double number = by.defined() ? 0 : to_double(factor.ptr(), "clip_grad", "factor");
    const Operand operand = by.defined() ? Operand(by) : Operand(number);
    if (recorded({&t})) {
      note_source();
      const GilRelease release;
      return scale_all_(t.used, operand);
    }
    run({&t}, [&] {
      if (by.defined()) optim::scale(t.used, by);
      else optim::scale(t.used, number);
    });
  };
  m.def("scale_", scale, nb::arg("tensors"), nb::arg("factor"));
  m.def("scale_all_", scale, nb::arg("tensors"), nb::arg("factor"));
}

}  // namespace fl::py
