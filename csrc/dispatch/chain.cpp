#include "dispatch/chain.h"

#include <algorithm>
#include <bitset>

#include "base/parallel.h"

namespace fl {
namespace {

constexpr int64_t kShortRow = 32;  // a broadcast operand's rows below this cost more to gather than a pass saves
constexpr int64_t kLine = 64;

struct Operand {
  char* data;
  DType dtype;
  int64_t item;
  Dims strides;
  bool constant, flat, stored, stream;
};

struct Plan {
  const Chain& chain;
  Axes axes;
  std::vector<Operand> operands;
  std::vector<int> slot;        // of each step's value, where it does not go straight to memory
  std::vector<char> straight;   // the loop writes memory itself
  int slots = 0;
};

// Tiles of one thread: a slot per value that is alive, and room for operands on their way.
struct Room {
  alignas(64) char in[kMaxInputs][kTileBytes];
  alignas(64) char raw[kTileBytes];
  alignas(64) char out[kTileBytes];
};

void run_range(const Plan& plan, int64_t begin, int64_t end) {
  const Chain& chain = plan.chain;
  const int n_steps = static_cast<int>(chain.steps.size());
  Room room;
  std::vector<char> tiles(static_cast<size_t>(plan.slots) * kTileBytes + 64);
  char* const values = tiles.data() + (64 - reinterpret_cast<uintptr_t>(tiles.data()) % 64);
  // Numbers and operands of one element are the same for all tiles.
  struct Fixed {
    std::array<char*, kMaxInputs> at{};
  };
  std::vector<Fixed> fixed(chain.steps.size());
  size_t n_fixed = 0;
  auto repeats = [&](const ChainStep::Source& s) {
    return s.kind == ChainStep::Source::Number || (s.kind == ChainStep::Source::Memory && plan.operands[static_cast<size_t>(s.index)].constant);
  };
  for (const ChainStep& step : chain.steps)
    for (int k = 0; k < step.n; ++k) n_fixed += repeats(step.in[static_cast<size_t>(k)]);
  std::vector<char> fills(n_fixed * kTileBytes + 64);
  char* next = fills.data() + (64 - reinterpret_cast<uintptr_t>(fills.data()) % 64);
  auto single = [&](const ChainStep& step) { return step.loops.single && repeats(step.in[static_cast<size_t>(step.n - 1)]); };
  for (int s = 0; s < n_steps; ++s) {
    const ChainStep& step = chain.steps[static_cast<size_t>(s)];
    for (int k = 0; k < step.n; ++k) {
      const ChainStep::Source& source = step.in[static_cast<size_t>(k)];
      if (!repeats(source)) continue;
      const auto item = static_cast<int64_t>(item_size(step.compute));
      const void* value = source.number;
      uint64_t converted;
      if (source.kind == ChainStep::Source::Memory) {
        const Operand& o = plan.operands[static_cast<size_t>(source.index)];
        value = o.data;
        if (read_as(o.dtype, step.compute) != step.compute) {
          convert_elements(&converted, step.compute, value, o.dtype, 1);
          value = &converted;
        }
      }
      const bool one = single(step) && k == step.n - 1;
      kernels::fill_loop(next, static_cast<size_t>(item), value, one ? 1 : std::min<int64_t>(kTile, end - begin));
      fixed[static_cast<size_t>(s)].at[static_cast<size_t>(k)] = next;
      next += kTileBytes;
    }
  }

  // A tile is read at once, at the first loop that wants it, and no processor looks ahead over the loops that follow. So each loop asks for a
  // share of the next tile's lines.
  std::vector<const Operand*> ahead;
  for (const Operand& o : plan.operands)
    if (o.flat && !o.stored && !o.constant && std::none_of(ahead.begin(), ahead.end(), [&](const Operand* a) { return a->data == o.data; })) ahead.push_back(&o);
  auto fetch = [&](int64_t from, int64_t n, int s) {
    for (const Operand* o : ahead) {
      const int64_t bytes = std::min(kTile, end - from) * o->item;
      const char* const line = o->data + from * o->item;
      for (int64_t b = bytes * s / n / kLine * kLine, stop = bytes * (s + 1) / n; b < stop; b += kLine) __builtin_prefetch(line + b);
    }
  };

  std::vector<const char*> at(chain.steps.size());  // where the value of each step lies
  const void* in[kMaxInputs];
  for (int64_t i = begin; i < end; i += kTile) {
    const int64_t m = std::min(kTile, end - i);
    for (int s = 0; s < n_steps; ++s) {
      const ChainStep& step = chain.steps[static_cast<size_t>(s)];
      if (i + kTile < end) fetch(i + kTile, n_steps, s);
      for (int k = 0; k < step.n; ++k) {
        const ChainStep::Source& source = step.in[static_cast<size_t>(k)];
        if (char* ready = fixed[static_cast<size_t>(s)].at[static_cast<size_t>(k)]) {
          in[k] = ready;
          continue;
        }
        const char* from;
        DType type;
        if (source.kind == ChainStep::Source::Value) {
          from = at[static_cast<size_t>(source.index)];
          type = chain.steps[static_cast<size_t>(source.index)].result;
        } else {
          const Operand& o = plan.operands[static_cast<size_t>(source.index)];
          type = o.dtype;
          if (o.flat) {
            from = o.data + i * o.item;
          } else {
            char* to = read_as(type, step.compute) == step.compute ? room.in[k] : room.raw;
            gather_flat(to, o.data, static_cast<size_t>(o.item), plan.axes, o.strides, i, m);
            from = to;
          }
        }
        if (read_as(type, step.compute) != step.compute) {
          convert_elements(room.in[k], step.compute, from, type, m);
          from = room.in[k];
        }
        in[k] = from;
      }
      const TileFn fn = single(step) ? step.loops.single : step.loops.all;
      const DType made = step.loops.bool_out ? DType::Bool : step.compute;
      const bool same = written_as(step.result, made) == made || (step.loops.bool_out && item_size(step.result) == 1);
      char* to;
      if (plan.straight[static_cast<size_t>(s)]) {
        const Operand& o = plan.operands[static_cast<size_t>(step.store)];
        to = o.data + i * o.item;
      } else {
        to = values + static_cast<size_t>(plan.slot[static_cast<size_t>(s)]) * kTileBytes;
      }
      fn(m, same ? to : room.out, in, step.params.data(), 1, kNoSteps);
      if (!same) convert_elements(to, step.result, room.out, made, m);
      at[static_cast<size_t>(s)] = to;
      if (step.store < 0 || plan.straight[static_cast<size_t>(s)]) continue;
      const Operand& o = plan.operands[static_cast<size_t>(step.store)];
      if (!o.flat) scatter_flat(o.data, to, static_cast<size_t>(o.item), plan.axes, o.strides, i, m);
      else if (o.stream) kernels::stream_loop(o.data + i * o.item, to, static_cast<size_t>(m * o.item));
      else std::memcpy(o.data + i * o.item, to, static_cast<size_t>(m * o.item));
    }
  }
  kernels::stream_end();
}

// A slot for each value that does not go straight to memory; slots are used again.
void place_values(Plan& plan) {
  const auto& steps = plan.chain.steps;
  std::vector<int> last(steps.size(), -1);
  for (size_t s = 0; s < steps.size(); ++s)
    for (int k = 0; k < steps[s].n; ++k)
      if (const auto& source = steps[s].in[static_cast<size_t>(k)]; source.kind == ChainStep::Source::Value)
        last[static_cast<size_t>(source.index)] = static_cast<int>(s);
  std::vector<int> free_at;  // per slot: the step after which it may be taken
  plan.slot.assign(steps.size(), 0);
  plan.straight.assign(steps.size(), 0);
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].store >= 0) {
      const Operand& o = plan.operands[static_cast<size_t>(steps[s].store)];
      plan.straight[s] = o.flat && !o.stream;
    }
    if (plan.straight[s]) continue;
    size_t slot = 0;
    while (slot < free_at.size() && free_at[slot] >= static_cast<int>(s)) ++slot;
    if (slot == free_at.size()) free_at.push_back(0);
    // Not before the step after its last reader: a reader's result may not lie where an operand that is gathered later does.
    free_at[slot] = std::max(last[s], static_cast<int>(s));
    plan.slot[s] = static_cast<int>(slot);
  }
  plan.slots = static_cast<int>(free_at.size());
}

// False where one by one is better.
bool lay_out(Plan& plan) {
  const Chain& chain = plan.chain;
  const int n = static_cast<int>(chain.operands.size());
  std::array<Dims, kMaxOperands> strides;
  std::vector<int> order;  // results first: they lead the order of the axes
  for (const ChainStep& s : chain.steps)
    if (s.store >= 0 && std::find(order.begin(), order.end(), s.store) == order.end()) order.push_back(s.store);
  const size_t stored = order.size();
  for (int k = 0; k < n; ++k)
    if (std::find(order.begin(), order.end(), k) == order.end()) order.push_back(k);
  for (int k = 0; k < n; ++k) strides[static_cast<size_t>(k)] = chain.operands[static_cast<size_t>(order[static_cast<size_t>(k)])].strides;
  plan.axes = simplify(chain.sizes, strides.data(), n);
  plan.operands.resize(static_cast<size_t>(n));
  int64_t rows = plan.axes.inner();
  for (int k = 0; k < n; ++k) {
    const ChainOperand& from = chain.operands[static_cast<size_t>(order[static_cast<size_t>(k)])];
    Operand& o = plan.operands[static_cast<size_t>(order[static_cast<size_t>(k)])];
    o.data = static_cast<char*>(from.data);
    o.dtype = from.dtype;
    o.item = static_cast<int64_t>(item_size(from.dtype));
    o.strides = strides[static_cast<size_t>(k)];
    o.stored = k < static_cast<int>(stored);
    o.constant = !o.stored && std::all_of(o.strides.begin(), o.strides.end(), [](int64_t s) { return s == 0; });
    o.flat = contiguous(plan.axes, o.strides);
    o.stream = o.stored && o.flat && plan.axes.numel * o.item >= kStreamBytes;
    const int64_t step = o.strides.empty() ? 1 : o.strides.back();
    if (!o.flat && !o.constant && ((step != 0 && step != 1) || rows < kShortRow)) return false;
  }
  for (Operand& o : plan.operands)  // its lines are read anyway
    for (const Operand& other : plan.operands)
      if (&o != &other && !other.stored && other.data == o.data) o.stream = false;
  return true;
}

}  // namespace

bool chain_fits(const Chain& chain) {
  Plan plan{.chain = chain, .axes = {}, .operands = {}, .slot = {}, .straight = {}};
  return lay_out(plan);
}

void run_chain(const Chain& chain) {
  Plan plan{.chain = chain, .axes = {}, .operands = {}, .slot = {}, .straight = {}};
  lay_out(plan);
  place_values(plan);
  parallel_for(0, plan.axes.numel, kGrain, [&](int64_t begin, int64_t end) { run_range(plan, begin, end); });
}

}  // namespace fl
