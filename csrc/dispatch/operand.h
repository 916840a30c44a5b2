// An argument that may be a tensor or a Python number.
#pragma once

#include "base/scalar.h"
#include "tensor/tensor.h"

namespace fl {

// Refers to its tensor, so it must not outlive it: a parameter type, never a member.
class Operand {
 public:
  Operand(const Tensor& t) : tensor_(&t) {}
  Operand(Scalar s) : number_(s) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Operand(T v) : number_(v) {}
  bool is_tensor() const { return tensor_ != nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  Scalar number() const { return number_; }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar number_;
};


}  // namespace fl
