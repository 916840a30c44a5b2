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

std::vector<int64_t> steps_of(nb::handle list) {
  std::vector<int64_t> out;
  for (nb::handle o : nb::borrow<nb::sequence>(list)) out.push_back(to_int(o.ptr(), "optim", "steps"));
  return out;
}

// Runs the step without the GIL, then notes what was written.
template <class F>
void run(std::initializer_list<Written*> lists, F&& f) {
  NoGrad off;
  note_source();
  std::optional<profile::TensorEvent> event;
  if (profile::on()) [[unlikely]] {
    event.emplace(profile::Kind::Optimizer, (*lists.begin())->op);
    for (Written* w : lists) event->input(w->used);
    event->begin();
  }
  {
    GilRelease release;
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

}  // namespace

void init_optim(nb::module_& m) {
  m.def("sgd_", [](nb::handle params, nb::handle grads, nb::handle buffers, nb::handle first, double lr, double momentum,
                   double dampening, double weight_decay, bool nesterov, bool maximize) {
    NoGrad off;
    Written p("SGD.step", params, "params");
    const Tensors g = gradients("SGD.step", grads, p.used);
    Written b("SGD.step", buffers, "momentum_buffers", &p.used);
    if (!b.used.empty()) same_length("SGD.step", p.used, b.used.size(), "momentum buffers");
    std::vector<uint8_t> flags;
    for (nb::handle o : nb::borrow<nb::sequence>(first)) flags.push_back(PyObject_IsTrue(o.ptr()) == 1);
    if (!b.used.empty()) same_length("SGD.step", p.used, flags.size(), "first-step flags");
    run({&p, &b}, [&] { optim::sgd(p.used, g, b.used, flags, lr, momentum, dampening, weight_decay, nesterov, maximize); });
  });
  m.def("adam_", [](nb::handle params, nb::handle grads, nb::handle exp_avgs, nb::handle exp_avg_sqs, nb::handle max_exp_avg_sqs,
                    nb::handle steps, double lr, double beta1, double beta2, double eps, double weight_decay, bool decoupled,
                    bool amsgrad, bool maximize) {
    NoGrad off;
    const char* op = decoupled ? "AdamW.step" : "Adam.step";
    Written p(op, params, "params");
    const Tensors g = gradients(op, grads, p.used);
    Written m1(op, exp_avgs, "exp_avgs", &p.used), m2(op, exp_avg_sqs, "exp_avg_sqs", &p.used), mx(op, max_exp_avg_sqs, "max_exp_avg_sqs", &p.used);
    same_length(op, p.used, m1.used.size(), "exp_avgs");
    same_length(op, p.used, m2.used.size(), "exp_avg_sqs");
    if (amsgrad) same_length(op, p.used, mx.used.size(), "max_exp_avg_sqs");
    const auto t = steps_of(steps);
    same_length(op, p.used, t.size(), "steps");
    run({&p, &m1, &m2, &mx}, [&] {
      optim::adam(p.used, g, m1.used, m2.used, mx.used, t, lr, beta1, beta2, eps, weight_decay, decoupled, amsgrad, maximize);
    });
  });
  m.def("rmsprop_", [](nb::handle params, nb::handle grads, nb::handle square_avgs, nb::handle grad_avgs, nb::handle buffers, double lr,
                       double alpha, double eps, double weight_decay, double momentum, bool maximize) {
    NoGrad off;
    Written p("RMSprop.step", params, "params");
    const Tensors g = gradients("RMSprop.step", grads, p.used);
    Written s("RMSprop.step", square_avgs, "square_avgs", &p.used), a("RMSprop.step", grad_avgs, "grad_avgs", &p.used),
        b("RMSprop.step", buffers, "momentum_buffers", &p.used);
    same_length("RMSprop.step", p.used, s.used.size(), "square_avgs");
    if (!a.used.empty()) same_length("RMSprop.step", p.used, a.used.size(), "grad_avgs");
    if (momentum > 0) same_length("RMSprop.step", p.used, b.used.size(), "momentum_buffers");
    run({&p, &s, &a, &b}, [&] { optim::rmsprop(p.used, g, s.used, a.used, b.used, lr, alpha, eps, weight_decay, momentum, maximize); });
  });
  m.def("adagrad_", [](nb::handle params, nb::handle grads, nb::handle state_sums, nb::handle steps, double lr, double lr_decay,
                       double weight_decay, double eps, bool maximize) {
    NoGrad off;
    Written p("Adagrad.step", params, "params");
    const Tensors g = gradients("Adagrad.step", grads, p.used);
    Written s("Adagrad.step", state_sums, "state_sums", &p.used);
    same_length("Adagrad.step", p.used, s.used.size(), "state_sums");
    const auto t = steps_of(steps);
    same_length("Adagrad.step", p.used, t.size(), "steps");
    run({&p, &s}, [&] { optim::adagrad(p.used, g, s.used, t, lr, lr_decay, weight_decay, eps, maximize); });
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
