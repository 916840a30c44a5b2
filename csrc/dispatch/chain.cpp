#include "dispatch/chain.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "base/parallel.h"
#include "dispatch/chain_plan.h"

namespace fl {
namespace {

std::atomic<int64_t> in_registers{0};

constexpr size_t kLine = 64;
constexpr int kEachInputs = 8;         // operands of an op, at most

// Walks a range of the chain's elements on one thread.
class Walk {
 public:
  Walk(const ChainPlan& plan, int64_t begin, int64_t end)
      : plan_(plan), steps_(plan.chain.steps), n_steps_(static_cast<int>(steps_.size())), begin_(begin), end_(end) {
    values_ = take(static_cast<size_t>(plan.slots) * kTileBytes);
    fill(end - begin);
    for (const PlannedOperand& o : plan.operands)
      if (o.flat && !o.stored && !o.constant && std::none_of(ahead_.begin(), ahead_.end(), [&](const PlannedOperand* a) { return a->data == o.data; }))
        ahead_.push_back(&o);
    if (end - begin >= kTile)
      for (int s = 0; s < n_steps_; ++s)
        if (plan.group[static_cast<size_t>(s)] > 0) group(s, plan.group[static_cast<size_t>(s)]);
  }

  void run() {
    for (int64_t i = begin_; i < end_; i += kTile) {
      const int64_t m = std::min(kTile, end_ - i);
      size_t group = 0;
      for (int s = 0; s < n_steps_; ++s) {
        const int end = plan_.group[static_cast<size_t>(s)];
        if (end > 0 && m == kTile) {
          run_group(groups_[group++], s, end, i);
          s = end - 1;
        } else {
          fetch(i, s);
          run_step(s, i, m);
        }
      }
    }
    kernels::stream_end();
  }

 private:
  using Source = ChainStep::Source;
  // An operand of a group that goes with the tile.
  struct Moving {
    size_t step;
    int k;               // -1: the result
    const PlannedOperand* from;
  };
  // An operand that is put in order before a group runs.
  struct Ready {
    Source source;
    char* to;
  };
  struct Group {
    std::vector<RegisterStep> program;
    std::vector<Moving> moving;
    std::vector<Ready> ready;
  };

  // Room for values, at the beginning of a line.
  char* take(size_t bytes) {
    bytes = (bytes + kLine - 1) / kLine * kLine;
    if (taken_ + bytes <= sizeof(room_.near)) return room_.near + std::exchange(taken_, taken_ + bytes);
    more_.push_back(std::make_unique_for_overwrite<char[]>(bytes + kLine));
    char* const at = more_.back().get();
    return at + (kLine - reinterpret_cast<uintptr_t>(at) % kLine);
  }

  // Numbers and operands of one element are the same for all tiles.
  void fill(int64_t range) {
    const int64_t block = kernels::register_ends().block / static_cast<int64_t>(sizeof(float));
    for (size_t s = 0; s < steps_.size(); ++s) {
      const ChainStep& step = steps_[s];
      const int64_t tile = plan_.grouped[s] && range >= kTile ? range % kTile : std::min(range, kTile);  // what the step's own loop will read
      for (int k = 0; k < step.n; ++k) {
        const Source& source = step.in[static_cast<size_t>(k)];
        if (!plan_.repeats(source)) continue;
        const auto item = static_cast<int64_t>(item_size(step.compute));
        const void* value = source.number;
        uint64_t converted;
        if (source.kind == Source::Memory) {
          const PlannedOperand& o = operand(source);
          value = o.data;
          if (read_as(o.dtype, step.compute) != step.compute) {
            convert_elements(&converted, step.compute, value, o.dtype, 1);
            value = &converted;
          }
        }
        const bool one = plan_.by_number(step) && k == step.n - 1;
        const int64_t n = one ? block : std::max(tile, block);
        char* const to = take(static_cast<size_t>(n * item));
        kernels::fill_loop(to, static_cast<size_t>(item), value, n);
        fixed_[s][static_cast<size_t>(k)] = to;
      }
    }
  }

  // A tile is read at once, at the first loop that wants it, and no processor looks ahead over the loops that follow, nor fetches by itself what is beyond
  // the page that it reads. So each loop asks for a share of the lines of the tile after the next.
  template <class F>
  void ahead(int64_t i, int first, int last, const F& f) const {
    const int64_t from = i + 2 * kTile;
    if (from >= end_) return;
    for (const PlannedOperand* o : ahead_) {
      constexpr auto line = static_cast<int64_t>(kLine);
      const int64_t bytes = std::min(kTile, end_ - from) * o->item, begin = bytes * first / n_steps_ / line * line;
      f(Ahead{o->data + from * o->item + begin, bytes * last / n_steps_ - begin});
    }
  }
  void fetch(int64_t i, int step) const {
    ahead(i, step, step + 1, [](const Ahead& a) {
      for (int64_t b = 0; b < a.bytes; b += static_cast<int64_t>(kLine)) __builtin_prefetch(a.from + b);
    });
  }

  const PlannedOperand& operand(const Source& source) const { return plan_.operands[static_cast<size_t>(source.index)]; }
  char* slot(int s) const { return values_ + static_cast<size_t>(plan_.slot[static_cast<size_t>(s)]) * kTileBytes; }
  const PlannedOperand& stored(int s) const { return plan_.operands[static_cast<size_t>(steps_[static_cast<size_t>(s)].store)]; }
  // Where the step's value lies, or is to lie, of the tile from i on.
  char* place(int s, int64_t i) const {
    if (!plan_.straight[static_cast<size_t>(s)]) return slot(s);
    return stored(s).data + i * stored(s).item;
  }

  // What a source holds from element i on, contiguous, in the type that is computed in: where it lies, or at `to`.
  const char* in_order(const Source& source, DType compute, char* to, int64_t i, int64_t m) {
    const char* from;
    DType type;
    if (source.kind == Source::Value) {
      from = at_[static_cast<size_t>(source.index)];
      type = steps_[static_cast<size_t>(source.index)].result;
    } else {
      const PlannedOperand& o = operand(source);
      type = o.dtype;
      if (o.flat) {
        from = o.data + i * o.item;
      } else {
        char* const gathered = read_as(type, compute) == compute ? to : room_.raw;
        gather_flat(gathered, o.data, static_cast<size_t>(o.item), plan_.axes, o.strides, i, m);
        from = gathered;
      }
    }
    if (read_as(type, compute) == compute) return from;
    convert_elements(to, compute, from, type, m);
    return to;
  }

  void run_step(int s, int64_t i, int64_t m) {
    const ChainStep& step = steps_[static_cast<size_t>(s)];
    const void* in[kMaxInputs];
    for (int k = 0; k < step.n; ++k) {
      char* const ready = fixed_[static_cast<size_t>(s)][static_cast<size_t>(k)];
      in[k] = ready ? ready : in_order(step.in[static_cast<size_t>(k)], step.compute, room_.in[k], i, m);
    }
    const TileFn fn = plan_.by_number(step) ? step.loops.single : step.loops.all;
    const DType made = step.loops.bool_out ? DType::Bool : step.compute;
    const bool same = written_as(step.result, made) == made || (step.loops.bool_out && item_size(step.result) == 1);
    char* const to = place(s, i);
    fn(m, same ? to : room_.out, in, step.params.data(), 1, kNoSteps);
    if (!same) convert_elements(to, step.result, room_.out, made, m);
    at_[static_cast<size_t>(s)] = to;
    put_away(s, to, i, m);
  }

  // Writes a value to memory that does not lie there yet.
  void put_away(int s, const char* value, int64_t i, int64_t m) const {
    const int store = steps_[static_cast<size_t>(s)].store;
    if (store < 0 || plan_.straight[static_cast<size_t>(s)]) return;
    const PlannedOperand& o = plan_.operands[static_cast<size_t>(store)];
    if (!o.flat) scatter_flat(o.data, value, static_cast<size_t>(o.item), plan_.axes, o.strides, i, m);
    else if (o.stream) kernels::stream_loop(o.data + i * o.item, value, static_cast<size_t>(m * o.item));
    else std::memcpy(o.data + i * o.item, value, static_cast<size_t>(m * o.item));
  }

  // Whether this thread's part of a result does, as far as its type goes into one.
  bool begins_a_vector(const PlannedOperand& o, const RegisterEnds& ends) const {
    const int64_t bytes = ends.vector / static_cast<int64_t>(sizeof(float)) * o.item;
    return reinterpret_cast<uintptr_t>(o.data + begin_ * o.item) % static_cast<uintptr_t>(bytes) == 0;
  }

  // The program of the steps from `first` to before `end`.
  void group(int first, int end) {
    Group& group = groups_.emplace_back();
    group.program.reserve(static_cast<size_t>(6 * (end - first) + 1));
    const RegisterEnds ends = kernels::register_ends();
    // `to` is to read an operand of step s, which comes next in the program, as its k-th one, in the wanted type: that which lies_as() says, or float.
    auto read = [&](RegisterStep& to, int k, int s, int operand_index, DType wanted) {
      const Source& source = steps_[static_cast<size_t>(s)].in[static_cast<size_t>(operand_index)];
      if (char* const ready = fixed_[static_cast<size_t>(s)][static_cast<size_t>(operand_index)]) {
        to.in[k] = ready;
        return;
      }
      to.keep[k] = -1;
      const bool value = source.kind == Source::Value;
      const DType type = value ? steps_[static_cast<size_t>(source.index)].result : operand(source).dtype;
      if (value && source.index >= first && type != DType::Float32) {
        to.in[k] = floats_[static_cast<size_t>(source.index)];
      } else if ((value || operand(source).flat) && type == wanted) {
        if (value && !plan_.straight[static_cast<size_t>(source.index)]) to.in[k] = slot(source.index);
        else group.moving.push_back({group.program.size(), k, value ? &stored(source.index) : &operand(source)});
      } else {
        char* const room = take(kTile * sizeof(float));
        to.in[k] = room;
        group.ready.push_back({source, room});
      }
    };
    // What read() finds where anything is wanted that registers take.
    auto lies_as = [&](int s, int operand_index) {
      const Source& source = steps_[static_cast<size_t>(s)].in[static_cast<size_t>(operand_index)];
      const bool value = source.kind == Source::Value;
      if (fixed_[static_cast<size_t>(s)][static_cast<size_t>(operand_index)] || (value && source.index >= first)) return DType::Float32;
      const DType type = value ? steps_[static_cast<size_t>(source.index)].result : operand(source).dtype;
      return (value || operand(source).flat) && RegisterEnds::takes(type) ? type : DType::Float32;
    };
    for (int s = first; s < end; ++s) {
      const ChainStep& step = steps_[static_cast<size_t>(s)];
      int held = s > first ? held_operand(step, s - 1) : -1;
      if (held < 0) {
        held = 0;
        RegisterStep load;
        const DType type = lies_as(s, 0);
        read(load, 0, s, 0, type);
        load.run = ends.of(type).load;
        group.program.push_back(load);
      }
      RegisterStep run;
      std::optional<DType> type;  // of what the step reads
      for (int k = 0; k < step.n; ++k)
        if (k != held) type = !type || *type == lies_as(s, k) ? lies_as(s, k) : DType::Float32;
      if (type) run.run = step.loops.registers->of(register_type(*type), held);
      if (!run.run) run.run = step.loops.registers->of(0, held), type = DType::Float32;
      for (size_t k = 0; k < step.params.size(); ++k) run.numbers[k] = step.params[k].as<float>();
      if (held == 0 && step.loops.registers->single && plan_.by_number(step)) {
        const float number = step.loops.registers->number(*reinterpret_cast<const float*>(fixed_[static_cast<size_t>(s)][static_cast<size_t>(step.n - 1)]));
        if (number != 0) run.run = step.loops.registers->single(), run.numbers[0] = number;
      }
      for (int k = 0; k < step.n; ++k)
        if (k != held) read(run, k, s, k, *type);
      group.program.push_back(run);
      auto write = [&](RegisterStep::Run how, const PlannedOperand* moving, char* to) {
        RegisterStep store;
        store.run = how;
        store.out = to;
        if (moving) group.moving.push_back({group.program.size(), -1, moving});
        group.program.push_back(store);
      };
      const RegisterEnds::Memory& memory = ends.of(step.result);
      const bool narrow = step.result != DType::Float32, inside = plan_.read[static_cast<size_t>(s)] & ChainPlan::kInside;
      if (narrow) group.program.emplace_back().run = memory.round;
      if (narrow && inside) write(ends.of(DType::Float32).store, nullptr, floats_[static_cast<size_t>(s)] = take(kTile * sizeof(float)));
      if (step.store >= 0 && stored(s).stream && begins_a_vector(stored(s), ends)) {
        write(memory.stream, &stored(s), nullptr);
        streamed_[static_cast<size_t>(s)] = true;
      }
      const bool wanted = (plan_.read[static_cast<size_t>(s)] & ChainPlan::kOutside) || (inside && !narrow) || (step.store >= 0 && !streamed_[static_cast<size_t>(s)]);
      if (plan_.straight[static_cast<size_t>(s)]) write(memory.store, &stored(s), nullptr);
      else if (wanted) write(memory.store, nullptr, slot(s));
    }
    group.program.emplace_back().run = ends.end;
  }

  void run_group(Group& group, int first, int end, int64_t i) {
    for (const Ready& r : group.ready) in_order(r.source, DType::Float32, r.to, i, kTile);
    for (const Moving& m : group.moving) {
      char* const lies = m.from->data + i * m.from->item;
      if (m.k < 0) group.program[m.step].out = lies;
      else group.program[m.step].in[m.k] = lies;
    }
    Ahead soon[kMostAhead];
    int n = 0;
    ahead(i, first, end, [&](const Ahead& a) {
      if (n < kMostAhead) soon[n++] = a;
    });
    kernels::run_registers(group.program.data(), kTile * static_cast<int64_t>(sizeof(float)), soon, n);
    for (int s = first; s < end; ++s) {
      at_[static_cast<size_t>(s)] = place(s, i);
      if (!streamed_[static_cast<size_t>(s)]) put_away(s, at_[static_cast<size_t>(s)], i, kTile);
    }
  }

  const ChainPlan& plan_;
  const std::vector<ChainStep>& steps_;
  const int n_steps_;
  const int64_t begin_, end_;
  std::array<std::array<char*, kMaxInputs>, Chain::kMaxSteps> fixed_{};
  std::array<const char*, Chain::kMaxSteps> at_{};   // where the value of each step lies
  std::array<bool, Chain::kMaxSteps> streamed_{};    // by a group's program
  std::array<char*, Chain::kMaxSteps> floats_{};     // where a value of 16 bits lies as floats, for those in its group that do not find it in the registers
  std::vector<const PlannedOperand*> ahead_;
  std::vector<Group> groups_;
  char* values_;
  size_t taken_ = 0;
  std::vector<std::unique_ptr<char[]>> more_;
  struct Room {
    alignas(64) char in[kEachInputs][kTileBytes];
    alignas(64) char raw[kTileBytes];
    alignas(64) char out[kTileBytes];
    alignas(64) char near[4 * kTileBytes];
  } room_;
};

}  // namespace

bool chain_fits(const Chain& chain) {
  ChainPlan plan{.chain = chain};
  return lay_out(plan);
}

int64_t steps_in_registers() { return in_registers; }
void note_in_registers(int64_t steps) { in_registers.fetch_add(steps, std::memory_order_relaxed); }

void run_chain(const Chain& chain) {
  ChainPlan plan{.chain = chain};
  lay_out(plan);
  find_groups(plan);
  place_values(plan);
  if (plan.axes.numel >= kTile) note_in_registers(std::count(plan.grouped.begin(), plan.grouped.end(), 1));
  parallel_for(0, plan.axes.numel, kGrain, [&](int64_t begin, int64_t end) { Walk(plan, begin, end).run(); });
}

}  // namespace fl
