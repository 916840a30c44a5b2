// Events of ops for the profiler: Note [Recording] in base/profile.h.
//
// A generated wrapper begins with
//
//   if (profile::on()) [[unlikely]]
//     if (profile::enter()) return profile::recorded("relu", [&] { return op::relu(x); }, x);
//
// so that it calls itself inside of an event (Note [Calling again]), and the path of a call that nobody looks
// at gets longer by one load.
#pragma once

#include <optional>
#include <tuple>

#include "base/profile.h"
#include "dispatch/operand.h"
#include "tensor/tensor.h"

namespace fl::profile {

// What an event says of tensors. Begins with the first call of begin(), ends with its scope.
class TensorEvent {
 public:
  TensorEvent(Kind kind, const char* name) : kind_(kind), name_(name) {}
  ~TensorEvent();
  TensorEvent(const TensorEvent&) = delete;
  TensorEvent& operator=(const TensorEvent&) = delete;

  void input(const Tensor& x);
  void input(const Operand& x);
  void input(TensorList xs);
  void input(const std::vector<Tensor>& xs) { input(TensorList(xs)); }
  void begin();

  void output(const Tensor& y);
  void output(const std::vector<Tensor>& ys);
  template <class... Ts>
  void output(const std::tuple<Ts...>& ys) {
    std::apply([&](const auto&... y) { (output(y), ...); }, ys);
  }
  void node(const void* node, uint64_t sequence);
  void flops(double n) { measured_.flops = n; }
  void done() { failed_ = false; }

 private:
  Kind kind_;
  const char* name_;
  Handle handle_;
  Event measured_;
  bool failed_ = true, views_ = true;
  int storages_ = 0;
  uint8_t input_dtype_ = 0;
  const Storage* storage_[4];
  uint64_t first_sequence_ = 0;
  std::vector<int64_t> shapes_;
};

template <class F, class W, class... In>
[[gnu::cold, gnu::noinline]] auto recorded_work(const char* name, F&& call, W&& work, const In&... in) {
  TensorEvent event(Kind::Op, name);
  (event.input(in), ...);
  event.begin();
  call_again();
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    called();
    event.done();
  } else {
    auto result = call();
    called();
    event.output(result);
    event.flops(work(result));
    event.done();
    return result;
  }
}

template <class F, class... In>
[[gnu::cold, gnu::noinline]] auto recorded(const char* name, F&& call, const In&... in) {
  return recorded_work(name, call, [](const auto&) { return 0.0; }, in...);
}

}  // namespace fl::profile
