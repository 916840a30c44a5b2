#include "dispatch/register_pass.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dispatch/chain_plan.h"

namespace fl {

std::unique_ptr<RegisterPass> RegisterPass::make(const Chain& chain) {
  std::unique_ptr<RegisterPass> pass(new RegisterPass(chain));
  return pass->build(chain) ? std::move(pass) : nullptr;
}

// At the beginning of a line.
float* RegisterPass::take(int64_t floats) {
  constexpr size_t kLine = 64;
  rooms_.push_back(std::make_unique<char[]>(static_cast<size_t>(floats) * sizeof(float) + kLine));
  char* const at = rooms_.back().get();
  return reinterpret_cast<float*>(at + (kLine - reinterpret_cast<uintptr_t>(at) % kLine));
}

float* RegisterPass::own(int operand, bool read, bool stored) {
  auto found = std::find_if(own_.begin(), own_.end(), [&](const Own& o) { return o.operand == operand; });
  if (found == own_.end()) found = own_.insert(own_.end(), {operand, false, false, take(block_)});
  found->read |= read;
  found->stored |= stored;
  return found->block;
}

bool RegisterPass::build(const Chain& chain) {
  ChainPlan plan{.chain = chain};
  if (chain.steps.size() < 2 || !lay_out(plan) || plan.axes.numel == 0 || plan.axes.numel > kGrain) return false;
  find_groups(plan);
  const int n = static_cast<int>(chain.steps.size());
  if (plan.group[0] != n) return false;
  for (const ChainStep& step : chain.steps)
    if (step.result != DType::Float32 || step.compute != DType::Float32) return false;
  for (const PlannedOperand& o : plan.operands)
    if (o.dtype != DType::Float32 || !(o.flat || o.constant) || o.stream) return false;
  place_values(plan);
  const RegisterEnds ends = kernels::register_ends();
  numel_ = plan.axes.numel;
  block_ = ends.block / static_cast<int64_t>(sizeof(float));
  std::vector<float*> slots;
  for (int k = 0; k < plan.slots; ++k) slots.push_back(take(kTile));
  const auto slot = [&](int s) { return reinterpret_cast<char*>(slots[static_cast<size_t>(plan.slot[static_cast<size_t>(s)])]); };
  // `to`, which comes next in the program, is to read an operand of step s as its k-th one.
  const auto read = [&](RegisterStep& to, int k, int s, int operand) {
    const ChainStep::Source& source = chain.steps[static_cast<size_t>(s)].in[static_cast<size_t>(operand)];
    const auto moves = [&](int from, bool memory) {
      to.keep[k] = -1;
      moving_.push_back({program_.size(), k, from});
      own(from, memory, false);
    };
    if (source.kind == ChainStep::Source::Value) {
      if (plan.straight[static_cast<size_t>(source.index)]) return moves(chain.steps[static_cast<size_t>(source.index)].store, false);
      to.keep[k] = -1;
      to.in[k] = slot(source.index);
    } else if (source.kind == ChainStep::Source::Memory && plan.operands[static_cast<size_t>(source.index)].flat) {
      moves(source.index, true);
    } else {
      float* const room = take(block_);
      to.in[k] = reinterpret_cast<const char*>(room);
      float number;
      std::memcpy(&number, source.number, sizeof number);
      if (source.kind == ChainStep::Source::Number) std::fill_n(room, block_, number);
      else constants_.push_back({source.index, room});
    }
  };
  const auto write = [&](int operand, char* to) {
    RegisterStep store;
    store.run = ends.of(DType::Float32).store;
    store.out = to;
    if (operand >= 0) {
      moving_.push_back({program_.size(), -1, operand});
      own(operand, false, true);
    }
    program_.push_back(store);
  };
  for (int s = 0; s < n; ++s) {
    const ChainStep& step = chain.steps[static_cast<size_t>(s)];
    int held = s > 0 ? held_operand(step, s - 1) : -1;
    if (held < 0) {
      held = 0;
      RegisterStep load;
      load.run = ends.of(DType::Float32).load;
      read(load, 0, s, 0);
      program_.push_back(load);
    }
    RegisterStep run;
    run.run = step.loops.registers->of(0, held);
    for (size_t k = 0; k < step.params.size(); ++k) run.numbers[k] = step.params[k].as<float>();
    const ChainStep::Source& last = step.in[static_cast<size_t>(step.n - 1)];
    if (held == 0 && step.loops.registers->single && step.loops.single && last.kind == ChainStep::Source::Number) {
      float number;
      std::memcpy(&number, last.number, sizeof number);
      if (const float better = step.loops.registers->number(number); better != 0) run.run = step.loops.registers->single(), run.numbers[0] = better;
    }
    for (int k = 0; k < step.n; ++k)
      if (k != held) read(run, k, s, k);
    program_.push_back(run);
    if (plan.straight[static_cast<size_t>(s)]) write(step.store, nullptr);
    else if (plan.read[static_cast<size_t>(s)]) write(-1, slot(s));
  }
  program_.emplace_back().run = ends.end;
  return true;
}

void RegisterPass::run_block(char* const* data, int64_t from, int64_t floats) {
  for (const Moving& m : moving_) {
    char* const at = data[m.operand] + from * static_cast<int64_t>(sizeof(float));
    if (m.k < 0) program_[m.step].out = at;
    else program_[m.step].in[m.k] = at;
  }
  kernels::run_registers(program_.data(), floats * static_cast<int64_t>(sizeof(float)), nullptr, 0);
}

void RegisterPass::run(char* const* data) {
  note_in_registers(static_cast<int64_t>(steps_));
  for (const Constant& c : constants_) {
    float number;
    std::memcpy(&number, data[c.operand], sizeof number);
    std::fill_n(c.block, block_, number);
  }
  const int64_t whole = numel_ / block_ * block_, rest = numel_ - whole;
  for (int64_t i = 0; i < whole; i += kTile) run_block(data, i, std::min(kTile, whole - i));
  if (rest == 0) return;
  std::array<char*, kMaxOperands> last{};
  for (const Own& o : own_) {
    last[static_cast<size_t>(o.operand)] = reinterpret_cast<char*>(o.block);
    if (o.read) std::memcpy(o.block, reinterpret_cast<const float*>(data[o.operand]) + whole, static_cast<size_t>(rest) * sizeof(float));
  }
  run_block(last.data(), 0, block_);
  for (const Own& o : own_)
    if (o.stored) std::memcpy(reinterpret_cast<float*>(data[o.operand]) + whole, o.block, static_cast<size_t>(rest) * sizeof(float));
}

}  // namespace fl
