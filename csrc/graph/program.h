// A recording that can be run again without the Python that made it.
//
// Note [Programs]
// A program is a function of tensors: what one thread recorded between the beginning of a region and now. Its buffers are
//
//     argument   the memory of a tensor that is given; written where the recording wrote it
//     fixed      memory that was there and was not given (parameters, statistics, constants): read, and written, where it lies;
//                read only, where NumPy or another library shares it
//     constant   memory that was made in the region and filled by no op (tensor([1, 2]), zeros); its bytes are kept, and copied for every run
//                if the run writes or returns them
//     internal   in an arena of the program's own, at places that a planner found; used again by every run
//     kept       made of fixed memory that the program does not write, and of constants: Note [What is computed once]
//     gradient   becomes the .grad of a tensor, and nothing else: in the arena, too, until somebody keeps one from a run to the next
//     output     fresh memory in every run
//
// A run does what the ops' wrappers did with values: it makes all their checks again, takes draws from the generators, and notes
// writes. What it does not do is ask Python anything. So only that can be a program which Python could not notice: no value was
// read while it was recorded, and nothing that was made lives on but what is returned, or is the .grad of a tensor. capture() says why
// something can not.
//
// Note [What is computed once]
// A node whose arguments are all fixed or constant and unwritten, or kept, gives the same in every run until somebody writes the fixed
// memory, which its version tells. So it runs in the first run and in those behind a write, and what other nodes read of what it gave is
// kept. Memory that NumPy sees has no versions: a run that finds that somebody got some of what was read, or has it, computes all again, and
// nothing of it is kept when the program is made.
//
// Note [Written over]
// A result of the form of an argument that nobody reads afterwards lies where that did, if the op goes element by element or says that it may
// (`over` in the op table), and runs alone. Both are then one storage, and the planner sees one life. Whether bytes lie channels-last is known
// when the op runs: where the argument's lie in order and another's do not, the result gets memory of its own.
//
// Gradients: where the recording looked at the .grad of a tensor (to add to it, or as .grad), a run takes only the same one, or none where there was
// none; where it replaced it unseen (zero_grad()), any. In the end .grad is what it was, is gone, or is fresh memory.
// A result may have a history only where a backward has used that up: nobody can go through it again, here or there.
//
// Note [Between the ops of a pass]
// Which element-wise ops go through memory in one pass follows from their operands, and is found when the program is made. What only the ops
// of one pass use never gets to memory, and has no place in the arena. At run time the bytes may lie otherwise than the pass can go
// (channels-last beside row-major): then its ops run one by one, and what lies between them gets memory for as long. No pass reaches beyond
// what was found, so that what is in memory is in use from the first op of its pass to the last, whichever way they run. Passes of small
// operands, which would cost more to make in every run than they save, are made once and kept, if all of their ops go in registers.
#pragma once

#include <algorithm>
#include <memory>

#include "base/fork_mutex.h"
#include "graph/recorder.h"
#include "storage/scratch.h"

namespace fl::graph {

// Changes whenever a tensor got other memory or an object another tensor, in a way that recordings do not see: programs are then to be
// compared with a new recording.
extern std::atomic<uint64_t> objects_version;
// To be called before x becomes one that ops treat otherwise: other memory, another size, with or without gradients.
inline void note_object_change() { objects_version.fetch_add(1, std::memory_order_relaxed); }
// Says whether a recording may know x.
inline bool note_object_change(const Tensor& x) {
  const bool known = x.storage().is_fixed();
  if (known) note_object_change();
  return known;
}

class Program final : public RefCounted {
 public:
  // What this thread has recorded, as a function of `args` that returns `outs`. Throws ArgumentError that says why it can not be one.
  // With `fold`, batch norms with standing statistics become part of the convolutions before them, which changes the last bits.
  // `budget`: Note [Computed again], graph/recompute.h.
  static Ref<Program> capture(const std::vector<Tensor>& args, const std::vector<Tensor>& outs, bool fold = false, double budget = 1);

  // What has a place in the arena, and the nodes from the first to the last that use it.
  struct Life {
    uint32_t buffer, first, last;
  };
  std::vector<Life> lives() const;
  // Where internal buffers lie: offsets in an arena of `total` bytes, by buffer.
  void place(const std::vector<std::pair<uint32_t, size_t>>& offsets, size_t total);
  // Gives the arena back until the next run.
  void rest();
  bool takes(const std::vector<Tensor>& args) const { return fits(args, false); }
  // Takes over what is known of arguments from an earlier recording that came to the same.
  void confirm(const Program& earlier);
  // Whether it looks at a gradient that nobody else has any more: it will never fit again.
  bool is_gone() const {
    return std::any_of(gradients_.begin(), gradients_.end(), [](const Gradient& g) { return g.before.defined() && g.before.impl()->use_count() == 1; });
  }
  // A sum over the bytes among those it reads that NumPy or another library shares.
  uint64_t foreign(const std::vector<Tensor>& args) const;
  // Nothing where the arguments are not of the sizes, types, strides and aliasing that were recorded.
  std::optional<std::vector<Tensor>> run(const std::vector<Tensor>& args);
  // The first node that is another in `other`; kSame where there is none.
  static constexpr size_t kSame = ~size_t{0};
  size_t difference(const Program& other) const;

  enum class Kind : uint8_t { Argument, Fixed, Constant, Internal, Gradient, Output, Kept };
  struct Buffer {
    Kind kind;
    uint32_t index;          // of an argument or an output
    size_t size_bytes;
    uint32_t last;           // the last node that uses it
    std::vector<uint32_t> values;
    Ref<Storage> storage;    // fixed, constant, and internal once it is placed
    size_t offset = 0;
    uint32_t over = kNone;   // the buffer that it is written over: Note [Written over]
    bool between = false;    // the ops of one pass: Note [Between the ops of a pass]
    bool written = false;    // by an op, where it existed before
    bool returned = false;
    bool copied() const { return written || returned; }  // of a constant: for every run
    bool placed() const { return (kind == Kind::Internal && !between) || kind == Kind::Gradient; }  // has a place in the arena
    bool inside() const { return kind == Kind::Internal || kind == Kind::Kept; }  // nobody sees it after a run
  };
  const Tape& tape() const { return tape_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  const std::vector<char>& runs() const { return runs_; }
  // The node at which the pass begins in which node k runs, and the one behind its last.
  uint32_t pass_begin(uint32_t k) const { return pass_begin_[k]; }
  uint32_t pass_end(uint32_t k) const { return pass_end_[k]; }
  size_t n_kept() const { return once_.size(); }

 private:
  struct Geometry {
    uint32_t buffer = kNone;
    DType dtype = DType::Float32;
    Dims sizes, strides;
    int64_t offset = 0;
    bool inference = false;
    bool operator==(const Geometry&) const = default;
  };
  // What happens to the .grad of a tensor.
  struct Gradient {
    Tensor of;              // undefined: that of an argument
    uint32_t argument = kNone;
    bool looked = false;
    Tensor before;          // where it was looked at: which one it was
    Tensor now;             // while it is captured
    enum class End : uint8_t { Same, None, Fresh } end = End::Same;
    Geometry geometry{};    // of a fresh one
    uint32_t out = kNone;   // the result that it is
    const Tensor& tensor(const std::vector<Tensor>& args) const { return of.defined() ? of : args[argument]; }
    bool operator==(const Gradient& o) const {
      return of.impl() == o.of.impl() && argument == o.argument && looked == o.looked && before.impl() == o.before.impl() && end == o.end && geometry == o.geometry &&
             out == o.out;
    }
  };
  class Seen;
  void capture_histories(std::vector<Recorder::Gradient> watched, const std::vector<Tensor>& args, const std::vector<Tensor>& outs);
  static bool same_memory(const Buffer& a, const Buffer& b);
  static Geometry geometry(const Tensor& x, uint32_t buffer);
  bool fits(const std::vector<Tensor>& args, bool known) const;
  void point(const Buffer& buffer, const Ref<Storage>& storage);
  // What is rewritten before it is planned: rewrite.cpp.
  void fold_batch_norms();
  void clamp_batch_norms();
  void compute_again(double budget);
  std::vector<std::vector<uint32_t>> users() const;
  uint32_t value_of(const NodeRecord& node, uint32_t argument) const;
  bool is_written(uint32_t buffer, uint32_t after, uint32_t before) const;
  bool same_place(uint32_t v, uint32_t u) const;
  NodeRecord node_of(const OpInfo* op, SourceId source, std::initializer_list<Box> args, std::initializer_list<uint32_t> outs);
  void take_arena();
  void find_gaps();
  void find_overwriters();
  void write_over(uint32_t node);
  void find_passes();
  void find_once();
  void compute_once();
  uint32_t new_value(uint32_t buffer, const Tensor& like);

  ForkMutex mutex_{LockRank::Recorder};
  Tape tape_;
  std::vector<Buffer> buffers_;
  std::vector<char> runs_;
  std::vector<uint32_t> over_;                // per node its result that is written over an argument, a buffer, or kNone
  std::vector<uint32_t> pass_begin_, pass_end_;  // per node
  std::vector<std::unique_ptr<KeptPass>> kept_;  // per node at which a pass begins that is kept
  std::vector<std::vector<uint32_t>> between_;   // per node at which a pass begins the buffers between its ops
  std::vector<std::vector<uint32_t>> ends_;   // per node the internal buffers that it is the last to use and whose bytes may move
  std::vector<Geometry> args_, outs_;
  std::vector<const char*> spent_;  // per result the name of its history, or null
  std::vector<Gradient> gradients_;
  Ref<Storage> arena_;
  size_t arena_bytes_ = 0;
  std::vector<std::vector<ScratchRoom::Gap>> gaps_;  // per node what is free in the arena: Note [Scratch memory]
  bool placed_ = false;
  // Note [The same argument each time]: the number of the memory that an argument had in all recordings; 0 where it differed.
  std::unique_ptr<std::atomic<uint64_t>[]> met_;
  bool differentiates_ = false;   // a backward ran in it
  bool gradients_apart_ = false;  // somebody kept one: they get memory of their own
  std::vector<uint32_t> once_;                                 // nodes that run before the others, and seldom
  struct Read {  // of a fixed buffer: as what it was read
    uint32_t buffer;
    uint32_t version = 0, outsiders = 0;
  };
  std::vector<Read> once_read_;
  std::vector<uint32_t> once_only_;  // buffers that only those nodes read
  bool once_done_ = false;
};

}  // namespace fl::graph
