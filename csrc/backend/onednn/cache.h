// The cache of primitives, and running one. Included by *.dnn.cpp only.
//
// A primitive is made once per key (op, descriptors, attributes), is immutable and runs on any number of
// threads at once: what it needs while running (memory objects, scratchpad) belongs to the call. The cache
// keeps the most recently used ones; a running primitive is kept alive by its shared pointer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/onednn/entry.h"
#include "base/dims.h"
#include "tensor/tensor.h"

namespace fl::onednn {

enum class Op : int64_t { Product, Matmul, WideMatmul, PackedMatmul, ConvForward, ConvBackwardData, ConvBackwardWeight };

// What a primitive was made for, as a list of integers; the number of threads is one of them.
class Key {
 public:
  Key(const Entry& entry, Op op) { words_.reserve(48), add(static_cast<int64_t>(op)).add(entry.threads()); }
  Key& add(int64_t v) {
    words_.push_back(v);
    hash_ = (hash_ ^ static_cast<uint64_t>(v)) * 0x9e3779b97f4a7c15ull;
    hash_ ^= hash_ >> 29;
    return *this;
  }
  Key& add(const Dims& d) {
    add(d.size());
    for (const int64_t v : d) add(v);
    return *this;
  }
  uint64_t hash() const { return hash_; }
  bool operator==(const Key& other) const { return hash_ == other.hash_ && words_ == other.words_; }

 private:
  std::vector<int64_t> words_;
  uint64_t hash_ = 0;
};

struct Primitive {
  int threads = 0;  // of the entry that made it
  dnnl::primitive primitive;
  std::vector<dnnl::memory::desc> mds;  // plain descriptors of the arguments, in the op's own order
  dnnl::memory::desc scratchpad;
  // Where the primitive wants another layout: reorders from (or, for outputs, to) the plain one.
  struct Reorder {
    dnnl::reorder primitive;
    dnnl::memory::desc plain, wanted;
    dnnl::memory::desc scratchpad;
    std::string form;  // names both layouts: Note [Prepared bytes]; empty where they can not be named
    bool needed = false;
  };
  std::vector<Reorder> reorders;
  mutable std::atomic<int> verdict{0};  // for who compares it with another primitive
};

// What runs a primitive, made of its descriptor `pd`. Refused where oneDNN has loops over elements alone ("ref"), for shapes and types that it has no kernel
// for: callers have better ones. (float16 on a Xeon with AVX512-FP16, 2 threads: the weight's gradient of 8 x 64 x 56 x 56 by 3 x 3 took 7 s, 512 x 512 x
// 2048 with a transposed weight as long; in float32 they take 5 and 3 ms.)
template <class P>
void adopt(Primitive& out, const typename P::primitive_desc& pd) {
  if (std::string_view(pd.impl_info_str()).starts_with("ref")) throw dnnl::error(dnnl_unimplemented, "no kernel for this shape");
  out.scratchpad = pd.scratchpad_desc();
  out.primitive = P(pd);
}

dnnl::memory::data_type data_type(DType t);
// True iff this processor multiplies this type itself: float32 always, float64 never (oneDNN has none).
bool has_native(DType t);
bool has_avx512();
bool has_float16_tiles();
dnnl::primitive_attr default_attr();  // scratchpad given by the user

// The primitive of `key`, made by `make` when it is new; null where oneDNN cannot make it.
std::shared_ptr<const Primitive> cached(const Entry& entry, const Key& key, const std::function<void(Primitive&)>& make);

// Arguments of one execution.
class Args {
 public:
  explicit Args(const Entry& entry) : entry_(entry) {}
  Args& add(int id, const dnnl::memory::desc& md, const void* data);
  // A primitive whose mds and reorders are indexed alike: input `i`, reordered first where needed.
  Args& input(const Primitive& p, int i, int id, const void* data);
  // A weight: an input whose bytes in the primitive's layout may be kept from an earlier call.
  Args& weight(const Primitive& p, int i, int id, Storage& owner, const void* data, bool again = false);
  // An output, reordered after run() where needed.
  Args& output(const Primitive& p, int i, int id, void* data);
  bool run(const Primitive& p);

 private:
  const Entry& entry_;
  std::vector<dnnl_exec_arg_t> args_;
  std::vector<dnnl::memory> keep_;
  std::vector<Tensor> scratch_;
  struct After {
    const Primitive::Reorder* reorder;
    dnnl::memory from;
    void* to;
  };
  std::vector<After> after_;
};

// Adds a reorder to p: from plain to wanted for inputs, from wanted to plain for outputs.
void add_reorder(const Entry& entry, Primitive& p, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted, bool is_output);

// Input `i` in the layout that the primitive wants: a tensor of bytes.
Tensor reordered(const Entry& entry, const Primitive& p, int i, const void* data, bool for_now = false);
// The same from what is kept with the bytes' owner; undefined where nothing is: Note [Prepared bytes].
Tensor kept(const Entry& entry, const Primitive& p, int i, Storage& owner, const void* data, bool again = false);

}  // namespace fl::onednn
