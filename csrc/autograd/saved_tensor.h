// What a node keeps of the forward pass.
//
// Note [Saved tensors]
// save() notes the tensor's version (its storage's, or that of `x.data`, which has its own); unpack() refuses when it moved, naming the op that
// saved, the op that wrote, and the Python lines of both. What is kept is an alias of the same bytes plus, for inputs,
// the gradient edge, so that a node never owns the tensor that owns it. That holds for leaves, too: a write in
// place may give one a history later, and its .grad may have one, and either may lead to this node.
//
// Inside of saved_tensors_hooks a node keeps what the thread's SavedHooks make of the bytes, and no version: what was packed
// is theirs. Of an input they get the tensor itself, which may be a parameter, of an output an alias without its history, which would be
// this node's; the history of what they return stays theirs, and the saved one is put on an alias.
#pragma once

#include "autograd/meta.h"
#include "dispatch/operand.h"

namespace fl {

// What hooks made of one saved tensor.
struct Packed : RefCounted {
  virtual Tensor unpack() = 0;
};
struct SavedHooks : RefCounted {
  virtual Ref<Packed> pack(const Tensor& x) = 0;
};

class SavedTensor {
 public:
  void save(const Tensor& x);                      // an input
  void save_copy(const Tensor& x);                 // an input that the op is about to overwrite
  void save_output(const Tensor& y, uint32_t nr);  // an output of the node itself
  void detach_bytes();                             // goes on with a copy of what is about to be overwritten
  Tensor unpack(Node& node, const char* what) const;
  void clear() {
    tensor_ = Tensor();
    packed_ = {};
    producer_ = {};
  }
  bool defined() const { return tensor_.defined() || packed_; }
  const Tensor& bytes() const { return tensor_; }  // undefined where hooks have packed them

 private:
  void note_producer(const Tensor& x);
  void pack(SavedHooks& hooks, const Tensor& x);
  Tensor with_history(Tensor bytes, Node& node) const;

  // 32 bytes; of 40, a recorded product of small tensors took 35 ns longer.
  Tensor tensor_;
  Ref<Packed> packed_;   // in the place of tensor_
  Ref<Node> producer_;   // of an input
  uint32_t version_ = 0;
  uint32_t nr_ : 31 = 0;  // which output of its producer, or of the node itself
  uint32_t output_ : 1 = 0;
};

// A saved `Operand`: a tensor or a number.
class SavedOperand {
 public:
  void save(const Operand& x) {
    is_tensor_ = x.is_tensor();
    if (is_tensor_) tensor_.save(x.tensor());
    else number_ = x.number();
  }
  void save_copy(const Operand& x) {
    is_tensor_ = x.is_tensor();
    if (is_tensor_) tensor_.save_copy(x.tensor());
    else number_ = x.number();
  }
  // `keep` holds the tensor that the returned operand refers to.
  Operand unpack(Node& node, const char* what, Tensor& keep) const {
    if (!is_tensor_) return Operand(number_);
    keep = tensor_.unpack(node, what);
    return Operand(keep);
  }
  void clear() { tensor_.clear(); }
  const SavedTensor* tensor() const { return is_tensor_ ? &tensor_ : nullptr; }
  const Scalar& number() const { return number_; }

 private:
  SavedTensor tensor_;
  Scalar number_;
  bool is_tensor_ = false;
};

// Who looks at what a node keeps.
struct SavedVisitor {
  virtual void meet(const char* name, const SavedTensor& x) = 0;
  virtual void meet(const char* name, const std::vector<SavedTensor>& xs) {
    for (const SavedTensor& x : xs) meet(name, x);
  }
  virtual void meet_number(const char* name, const Scalar& x) { (void)name, (void)x; }
  virtual void meet_sizes(const char* name, IntList x) { (void)name, (void)x; }
  virtual void meet_nothing(const char* name) { (void)name; }
  // What else formulas read: numbers, axes, sizes, and those that may not be given.
  template <class T>
  void meet_value(const char* name, const T& x) {
    if constexpr (requires { x.has_value(); }) x ? meet_value(name, *x) : meet_nothing(name);
    else if constexpr (std::is_convertible_v<T, IntList>) meet_sizes(name, x);
    else meet_number(name, Scalar(x));
  }
  void meet(const char* name, const SavedOperand& x) {
    if (x.tensor()) meet(name, *x.tensor());
    else meet_number(name, x.number());
  }

 protected:
  ~SavedVisitor() = default;
};

// How a broadcast, promoted input's gradient has to be fitted back: summed to its shape, cast to its type. Of a complex gradient a real
// input gets the real part.
struct Fit {
  bool needed = false;
  bool noted = false;
  bool any_shape = false;
  DType dtype{};
  Dims sizes;
  void note(const Tensor& x, const Tensor& y) {
    if (!x.defined()) return;
    noted = true;
    dtype = x.dtype();
    any_shape = x.sizes() == y.sizes();
    if (!any_shape) sizes = x.sizes();
    needed = !any_shape || dtype != y.dtype();
  }
  void note_type(const Tensor& x, const Tensor& y) {
    if (!x.defined()) return;
    noted = any_shape = true;
    dtype = x.dtype();
    needed = dtype != y.dtype();
  }
  void note(const Operand& x, const Tensor& y) {
    if (x.is_tensor()) note(x.tensor(), y);
  }
  // A formula may promote by another operand, also where the result has x's type (`x.mul_(y)`).
  Tensor apply(Tensor grad) const { return grad.defined() && (needed || (noted && grad.dtype() != dtype)) ? fitted(std::move(grad)) : grad; }

 private:
  Tensor fitted(Tensor grad) const;
};

}  // namespace fl
