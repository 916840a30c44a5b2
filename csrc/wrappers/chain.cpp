// Recorded element-wise ops that follow each other, as one pass over memory: dispatch/chain.h.
#include "dispatch/chain.h"

#include <algorithm>
#include <array>
#include <memory>

#include "dispatch/register_pass.h"
#include "graph/recorder.h"
#include "tensor/raw.h"
#include "wrappers/run_each.h"
#include "wrappers/wrap.h"

namespace fl {
namespace {

bool same_place(const Tensor& a, const Tensor& b) {
  return &a.storage() == &b.storage() && a.offset() == b.offset() && a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

class Kept final : public graph::KeptPass {
 public:
  Kept(std::unique_ptr<RegisterPass> pass, std::vector<const Tensor*> operands) : pass_(std::move(pass)), operands_(std::move(operands)) {}
  size_t links() const override { return pass_->steps(); }
  bool run() override {
    std::array<char*, kMaxOperands> data;
    for (size_t k = 0; k < operands_.size(); ++k) {
      const Tensor& t = *operands_[k];
      if (t.storage().lies_deferred()) return false;
      data[k] = static_cast<char*>(t.data());
    }
    pass_->run(data.data());
    return true;
  }

 private:
  std::unique_ptr<RegisterPass> pass_;
  std::vector<const Tensor*> operands_;
};

class Builder {
 public:
  // As many of these, from the first one on, as go into one chain.
  explicit Builder(std::span<const graph::Link> links) {
    chain_.steps.reserve(links.size());
    memory_.reserve(kMaxOperands);
    written_.reserve(links.size());
    inplaces_.reserve(links.size());
    for (const graph::Link& link : links)
      if (!add(link)) break;
  }

  size_t size() const { return chain_.steps.size(); }
  // How many of the first steps go in registers, in float32.
  size_t in_registers() const {
    const auto& steps = chain_.steps;
    const auto other = std::find_if(steps.begin(), steps.end(), [](const ChainStep& s) {
      return !s.loops.registers || s.compute != DType::Float32 || s.result != DType::Float32;
    });
    return static_cast<size_t>(other - steps.begin());
  }

  // The pass as one that is kept, over operands that lie in row-major order whenever it runs; null where there is none.
  std::unique_ptr<graph::KeptPass> keep(std::span<const graph::Link> links) {
    const std::vector<char> stores = stored(links);
    for (const Tensor* m : memory_) {
      ChainOperand& o = chain_.operands.emplace_back(ChainOperand{nullptr, m->dtype(), {}});
      each::expanded_strides(*m, chain_.sizes, o.strides);
    }
    for (size_t s = 0; s < size(); ++s) {
      if (!stores[s]) continue;
      chain_.steps[s].store = static_cast<int>(chain_.operands.size());
      chain_.operands.push_back({nullptr, written_[s]->dtype(), written_[s]->strides()});
      memory_.push_back(written_[s]);
    }
    auto pass = RegisterPass::make(chain_);
    return pass ? std::make_unique<Kept>(std::move(pass), std::move(memory_)) : nullptr;
  }

  // False, and nothing was changed, where one by one is better.
  bool run(std::span<const graph::Link> links) {
    const size_t n = size();
    const std::vector<char> stores = stored(links);
    std::vector<RawTensor> raws;
    raws.reserve(memory_.size() + n);
    bool last = false, rows = false;
    for (const Tensor* m : memory_) {
      const RawTensor& raw = raws.emplace_back(*m);
      if (!(m->sizes() == chain_.sizes)) continue;
      (raw.channels_last() ? last : rows) = true;
    }
    if (last && (rows || !may_defer(chain_.sizes))) return false;
    if (last && !layouts_agree(raws, stores)) return false;
    for (size_t k = 0; k < memory_.size(); ++k) {
      const Tensor& m = raws[k].tensor();
      ChainOperand& o = chain_.operands.emplace_back(ChainOperand{m.data(), m.dtype(), {}});
      each::expanded_strides(m, chain_.sizes, o.strides);
    }
    for (size_t s = 0; s < n; ++s) {
      if (!stores[s]) continue;
      const Tensor& y = *written_[s];
      if (last && (inplaces_[s] ? !is_deferred(y) : !y.is_contiguous())) return false;
      chain_.steps[s].store = static_cast<int>(chain_.operands.size());
      chain_.operands.push_back({nullptr, y.dtype(), last ? channels_last_strides(y.sizes()) : y.strides()});
    }
    if (!chain_fits(chain_)) return false;
    for (size_t s = 0; s < n; ++s) {
      if (!stores[s]) continue;
      const Tensor& y = *written_[s];
      y.storage().settle();
      if (last && !inplaces_[s]) defer(y);
      raws.emplace_back(y, RawBytes::Write);
      chain_.operands[static_cast<size_t>(chain_.steps[s].store)].data = raws.back().tensor().data();
    }
    run_chain(chain_);
    return true;
  }

 private:
  // False: the op has to wait for those before it, or does not fit in.
  bool add(const graph::Link& link) {
    inplace_ = link.op->writes != 0;
    out_ = inplace_ ? &link.frame.tensor(0) : &link.frame.out(0);
    if (chain_.steps.empty()) chain_.sizes = out_->sizes();
    if (chain_.steps.size() == Chain::kMaxSteps) return false;
    const size_t operands = memory_.size();
    fits_ = true;
    op_ = link.op->name;
    chain_.steps.emplace_back();
    link.op->each(
        link.frame,
        [](void* self, const EachKernel& kernel, DType, DType type, const Operand* in, int n, const Scalar* params, int n_params) {
          static_cast<Builder*>(self)->take(kernel, type, in, n, params, n_params);
        },
        this);
    // What is written is read, if at all, in the same place.
    for (const Tensor* m : memory_) fits_ = fits_ && (&m->storage() != &out_->storage() || same_place(*m, *out_));
    for (const Tensor* w : written_) fits_ = fits_ && (&w->storage() != &out_->storage() || same_place(*w, *out_));
    // Results count as operands, stored or not: what a chain holds stays alive until its end, and longer ones save little time.
    if (!fits_ || memory_.size() + written_.size() + 1 > kMaxOperands) {
      chain_.steps.pop_back();
      memory_.resize(operands);
      return false;
    }
    written_.push_back(out_);
    inplaces_.push_back(inplace_);
    return true;
  }

  // By step, whether its result goes to memory: what is written again needs to be stored once.
  std::vector<char> stored(std::span<const graph::Link> links) const {
    const size_t n = size();
    const uint32_t end = links[n - 1].node;
    std::vector<char> stores(n);
    for (size_t s = 0; s < n; ++s) {
      stores[s] = links[s].stays || links[s].last > end;
      for (size_t later = s + 1; later < n && stores[s]; ++later) stores[s] = &written_[later]->storage() != &written_[s]->storage();
    }
    return stores;
  }

  // Whether every result that is stored would lie channels-last if the ops ran one by one: where an operand of its size does.
  bool layouts_agree(const std::vector<RawTensor>& raws, const std::vector<char>& stores) const {
    std::vector<char> lies(size());
    for (size_t s = 0; s < size(); ++s) {
      const ChainStep& step = chain_.steps[s];
      for (int k = 0; k < step.n; ++k) {
        const ChainStep::Source& source = step.in[static_cast<size_t>(k)];
        const auto i = static_cast<size_t>(source.index);
        if (source.kind == ChainStep::Source::Value) lies[s] |= lies[i];
        if (source.kind == ChainStep::Source::Memory) lies[s] |= raws[i].channels_last() && memory_[i]->sizes() == chain_.sizes;
      }
      if (inplaces_[s]) lies[s] = is_deferred(*written_[s]);
      if (stores[s] && !lies[s]) return false;
    }
    return true;
  }

  static Dims channels_last_strides(const Dims& sizes) {
    Dims strides(sizes.size());
    strides[1] = 1;
    int64_t step = sizes[1];
    for (int i = sizes.size() - 1; i >= 2; step *= sizes[i], --i) strides[i] = step;
    strides[0] = step;
    return strides;
  }

  void take(const EachKernel& kernel, DType type, const Operand* in, int n, const Scalar* params, int n_params) {
    ChainStep& step = chain_.steps.back();
    step.compute = each::loop_type(kernel, op_, type, in, n, params);
    if (is_complex(step.compute)) {  // tiles of a chain hold elements of up to 8 bytes
      fits_ = false;
      return;
    }
    step.loops = kernel.get(step.compute);
    step.result = out_->dtype();
    step.n = n;
    step.params.assign(params, params + n_params);
    for (int k = 0; k < n; ++k) {
      ChainStep::Source& source = step.in[static_cast<size_t>(k)];
      if (!in[k].is_tensor()) {
        source.kind = ChainStep::Source::Number;
        each::box(source.number, in[k].number(), step.compute, *out_, step.loops.bool_out);
        continue;
      }
      const Tensor& x = in[k].tensor();
      if (!x.defined() || each::narrowed(x, *out_)) {
        fits_ = false;
        return;
      }
      // The last step that wrote there is what it reads.
      size_t made = written_.size();
      while (made > 0 && &written_[made - 1]->storage() != &x.storage()) --made;
      if (made > 0) {
        fits_ = fits_ && same_place(*written_[made - 1], x);
        source.kind = ChainStep::Source::Value;
        source.index = static_cast<int>(made - 1);
        continue;
      }
      source.kind = ChainStep::Source::Memory;
      const auto found = std::find_if(memory_.begin(), memory_.end(), [&](const Tensor* m) { return same_place(*m, x); });
      source.index = static_cast<int>(found - memory_.begin());
      if (found == memory_.end()) memory_.push_back(&x);
    }
  }

  Chain chain_;
  std::vector<const Tensor*> memory_;   // operands that are read from memory
  std::vector<const Tensor*> written_;  // by each step
  std::vector<char> inplaces_;
  const Tensor* out_ = nullptr;
  const char* op_ = "";
  bool inplace_ = false, fits_ = true;
};

}  // namespace

size_t each::count_linked(std::span<const graph::Link> links) {
  return Builder(links).size();
}

std::unique_ptr<graph::KeptPass> each::keep_linked(std::span<const graph::Link> links) {
  const size_t n = Builder(links).in_registers();
  return n < 2 ? nullptr : Builder(links.first(n)).keep(links.first(n));
}

size_t each::run_linked(std::span<const graph::Link> links) {
  Builder builder(links);
  if (builder.size() < 2 || !builder.run(links)) return 0;
  return builder.size();
}

}  // namespace fl
