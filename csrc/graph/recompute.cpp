// What a program computes twice instead of keeping it: Note [Computed again].
#include <algorithm>
#include <limits>
#include <string_view>

#include "graph/recompute.h"

namespace fl::graph {

namespace {

// Ops that are cheap beside what they make, and not element by element.
bool is_cheap(const OpInfo& op) {
  constexpr std::string_view kCheap[] = {"batch_norm", "batch_norm_clamp", "layer_norm", "group_norm", "rms_norm", "contiguous_copy", "cat_same", "flip", "softmax", "log_softmax"};
  return op.each || std::find(std::begin(kCheap), std::end(kCheap), op.name) != std::end(kCheap);
}

// Chooses what is computed again, and puts it where it is needed.
class Recomputation {
 public:
  Recomputation(Tape& tape, std::vector<Room> rooms)
      : tape_(tape), rooms_(std::move(rooms)), old_(rooms_.size()), users_(old_), writers_(old_), first_(old_, kNone), last_(old_), again_(old_, kNone), needed_(old_) {
    for (uint32_t k = 0; k < tape.nodes.size(); ++k) {
      const NodeRecord& node = tape.nodes[k];
      for (uint32_t v = node.first; v < node.last; ++v)
        if (const uint32_t b = tape.buffer_of[v]; b != kNone && (users_[b].empty() || users_[b].back() != k)) users_[b].push_back(k);
      tape.for_written(node, [&](uint32_t v) {
        if (auto& w = writers_[tape.buffer_of[v]]; w.empty() || w.back() != k) w.push_back(k);
      });
    }
    for (uint32_t b = 0; b < old_; ++b)
      if (!users_[b].empty()) first_[b] = users_[b].front(), last_[b] = users_[b].back();
  }

  std::vector<size_t> run(double budget) {
    choose(budget);
    insert();
    std::vector<size_t> sizes;
    for (size_t b = old_; b < rooms_.size(); ++b) sizes.push_back(rooms_[b].size_bytes);
    return sizes;
  }

 private:
  void choose(double budget) {
    const size_t before = fullest().first;
    const auto enough = static_cast<size_t>(budget * static_cast<double>(before));
    for (const int depth : {0, 1}) {  // those that need nothing else computed again come first
      std::vector<char> failed(old_);
      for (bool found = true; found;) {
        const auto [most, node] = fullest();
        if (most <= enough) return;
        found = false;
        for (uint32_t b = 0; b < old_ && !found; ++b) {
          if (failed[b] || !over(b, node)) continue;
          found = split(b, node, depth);
          failed[b] = !found;
        }
      }
    }
  }

  static constexpr size_t kLeast = 4096;  // bytes that are worth it
  static constexpr size_t kSmall = 32;  // parts of a buffer: what may be kept longer for its sake without counting it
  struct Plan {
    std::vector<uint32_t> nodes;     // to run again, in order
    std::vector<uint32_t> buffers;   // that they fill again
    std::vector<uint32_t> longer;    // that are kept for them
  };
  struct Again {
    uint32_t before;  // the node that needs it
    NodeRecord node;
  };

  bool own(uint32_t b) const { return rooms_[b].own; }
  size_t bytes(uint32_t b) const { return rooms_[b].size_bytes; }

  // The most bytes of the program's own that are in use at one node, and that node.
  std::pair<size_t, uint32_t> fullest() const {
    const size_t n = tape_.nodes.size();
    std::vector<int64_t> change(n + 1);
    for (uint32_t b = 0; b < first_.size(); ++b)
      if (first_[b] != kNone && own(b)) change[first_[b]] += static_cast<int64_t>(bytes(b)), change[last_[b] + 1] -= static_cast<int64_t>(bytes(b));
    int64_t now = 0, most = 0;
    uint32_t node = 0;
    for (uint32_t k = 0; k < n; ++k)
      if ((now += change[k]) > most) most = now, node = k;
    return {static_cast<size_t>(most), node};
  }

  // The first use behind node k of what is not used at k; kNone where there is none.
  uint32_t next_use(uint32_t b, uint32_t k) const {
    const auto at = std::lower_bound(users_[b].begin(), users_[b].end(), k);
    return at == users_[b].end() || *at == k || at == users_[b].begin() ? kNone : *at;
  }
  // Whether b is one that is kept over node k for later, whole, and that somebody could give up.
  bool over(uint32_t b, uint32_t k) const {
    return rooms_[b].may_go && again_[b] == kNone && bytes(b) >= kLeast && needed_[b] <= k && next_use(b, k) != kNone;
  }

  bool written_between(uint32_t b, uint32_t after, uint32_t before) const {
    return std::any_of(writers_[b].begin(), writers_[b].end(), [&](uint32_t w) { return w > after && w < before; });
  }

  // What has the contents of b at node k, computed by then; kNone where nothing has.
  uint32_t there(uint32_t b, uint32_t k) const {
    if (!own(b)) return b;
    if (last_[b] >= k) return b;
    const uint32_t again = again_[b];
    if (again == kNone || first_[again] > k || last_[again] < k) return kNone;
    return writers_[again].empty() || writers_[again].front() >= k ? again : kNone;  // else it was written since
  }

  // Adds to the plan what makes b again for node k, which all its writers before do; false: that can not be, or gains too little.
  bool make_again(uint32_t b, uint32_t k, int depth, size_t& cost, Plan& plan) {
    std::vector<uint32_t> nodes;
    for (const uint32_t w : writers_[b]) {
      if (w >= k) break;
      nodes.push_back(w);
    }
    const Tape& tape = tape_;
    if (nodes.empty() || !makes(tape.nodes[nodes.front()], b)) return false;
    for (const uint32_t w : nodes) {
      const NodeRecord& node = tape.nodes[w];
      if (!is_cheap(*node.op)) return false;
      for (uint32_t i = 0; i < node.n_args; ++i)
        if (tape.boxes[node.args + i].kind == Box::Kind::Draw) return false;
      if (w != nodes.front() && !only_writes(node, b)) return false;
      const bool norm = is_batch_norm(node);
      for (uint32_t v = node.first; v < (norm ? node.last : node.outs); ++v) {
        const uint32_t in = tape.buffer_of[v];
        if (in == kNone || in == b) continue;
        if (norm && (value_of(node, 1) == v || value_of(node, 2) == v)) continue;  // running statistics: what they gave was saved
        if (written_between(in, w, k)) return false;
        if (there(in, k) != kNone) continue;
        if (std::find(plan.buffers.begin(), plan.buffers.end(), in) != plan.buffers.end()) continue;
        if (depth > 0 && rooms_[in].may_go && bytes(in) > bytes(b) / kSmall) {
          Plan more = plan;
          size_t its_cost = cost;
          if (make_again(in, k, depth - 1, its_cost, more)) {
            plan = std::move(more), cost = its_cost;
            continue;
          }
        }
        if (bytes(in) > bytes(b) / kSmall) cost += bytes(in);
        plan.longer.push_back(in);
      }
    }
    plan.nodes.insert(plan.nodes.end(), nodes.begin(), nodes.end());
    plan.buffers.push_back(b);
    return true;
  }

  uint32_t value_of(const NodeRecord& node, uint32_t argument) const {  // kNone where it was not given
    const Box& box = tape_.boxes[node.args + argument];
    return box.kind == Box::Kind::Tensor ? static_cast<uint32_t>(box.integer) : kNone;
  }
  bool is_batch_norm(const NodeRecord& node) const { return node.op == norm_ || node.op == clamped_; }
  // Whether all of b comes from this node, which writes nothing else that is to be written once.
  bool makes(const NodeRecord& node, uint32_t b) const {
    if (is_batch_norm(node)) return tape_.buffer_of[node.outs] == b;
    for (uint32_t v = node.outs; v < node.last; ++v)
      if (tape_.buffer_of[v] == b) return node.op->writes == 0;
    return false;
  }
  bool only_writes(const NodeRecord& node, uint32_t b) const {
    bool only = node.outs == node.last;
    tape_.for_overwritten(node, [&](uint32_t v) { only &= tape_.buffer_of[v] == b; });
    return only;
  }

  // Lets b go over node k: it is computed again before its next use.
  bool split(uint32_t b, uint32_t k, int depth) {
    const uint32_t use = next_use(b, k);
    Plan plan;
    size_t cost = 0;
    if (!make_again(b, use, depth, cost, plan) || cost > bytes(b) / 2) return false;
    std::sort(plan.nodes.begin(), plan.nodes.end());
    plan.nodes.erase(std::unique(plan.nodes.begin(), plan.nodes.end()), plan.nodes.end());
    for (const uint32_t in : plan.longer) last_[in] = std::max(last_[in], use);
    Renamed renamed;
    for (const uint32_t old : plan.buffers) renamed.emplace_back(old, fresh(old, use, old == b ? last_[old] : use));
    for (const uint32_t w : plan.nodes) again(tape_.nodes[w], use, renamed);
    // From there on the new one is used.
    const uint32_t now = renamed.back().second;
    for (const uint32_t u : users_[b]) {
      if (u < use) continue;
      const NodeRecord& node = tape_.nodes[u];
      for (uint32_t v = node.first; v < node.last; ++v)
        if (tape_.buffer_of[v] == b) move(v, now);
    }
    users_[now].assign(std::lower_bound(users_[b].begin(), users_[b].end(), use), users_[b].end());
    users_[b].erase(std::lower_bound(users_[b].begin(), users_[b].end(), use), users_[b].end());
    for (auto w = std::lower_bound(writers_[b].begin(), writers_[b].end(), use); w != writers_[b].end(); ++w) writers_[now].push_back(*w);
    writers_[b].erase(std::lower_bound(writers_[b].begin(), writers_[b].end(), use), writers_[b].end());
    last_[b] = std::max(users_[b].back(), needed_[b]);
    again_[b] = now;
    return true;
  }

  uint32_t fresh(uint32_t like, uint32_t from, uint32_t until) {
    rooms_.push_back({bytes(like), true, true});
    first_.push_back(from), last_.push_back(until), again_.push_back(kNone), needed_.push_back(0);
    users_.emplace_back(), writers_.emplace_back();
    return static_cast<uint32_t>(rooms_.size() - 1);
  }

  void move(uint32_t v, uint32_t to) {
    tape_.buffer_of[v] = to;
    tape_.values[v] = alias(tape_.values[v]);
    tape_.values[v].impl()->storage = nullptr;
  }

  uint32_t value(uint32_t buffer, uint32_t like) {
    const auto v = static_cast<uint32_t>(tape_.values.size());
    const Tensor same = tape_.values[like];
    tape_.values.push_back(same.defined() ? alias(same) : same);
    tape_.buffer_of.push_back(same.defined() ? buffer : kNone);
    tape_.next.push_back(kNone);
    if (same.defined() && buffer >= old_) tape_.values[v].impl()->storage = nullptr;
    return v;
  }

  using Renamed = std::vector<std::pair<uint32_t, uint32_t>>;
  void again(const NodeRecord& old, uint32_t before, const Renamed& renamed) {
    Tape& tape = tape_;
    const auto name = [&](uint32_t buffer) {
      for (const auto& [from, to] : renamed)
        if (from == buffer) return to;
      return kNone;
    };
    const auto new_one = [&](uint32_t v) {  // of what is read, or written again
      const uint32_t was = tape.buffer_of[v];
      if (was == kNone) return value(kNone, v);
      uint32_t is = name(was);
      if (is == kNone) {
        is = there(was, before);
        needed_[is] = std::max(needed_[is], before);
      }
      return value(is, v);
    };
    NodeRecord node = old;
    node.args = static_cast<uint32_t>(tape.boxes.size());
    node.first = static_cast<uint32_t>(tape.values.size());
    if (is_batch_norm(old)) {  // by the statistics that it saved
      enum { X, Mean, Var, Weight, Bias, Training, Momentum, Eps, Low, High };
      node.op = find_op("batch_norm_again");
      const bool clamps = old.n_args > Low;
      const auto number = [&](uint32_t i) { return clamps ? Box(tape.boxes[old.args + i]) : Box(std::numeric_limits<double>::quiet_NaN()); };
      std::vector<Box> boxes;
      for (const uint32_t v : {value_of(old, X), old.outs + 1, old.outs + 2, value_of(old, Weight), value_of(old, Bias)})
        boxes.push_back(v == kNone ? Box() : Box(Box::Kind::Tensor, new_one(v)));
      boxes.push_back(number(Low)), boxes.push_back(number(High));
      tape.boxes.insert(tape.boxes.end(), boxes.begin(), boxes.end());
      node.n_args = static_cast<uint32_t>(boxes.size());
      node.outs = new_one(old.outs);
    } else {
      for (uint32_t v = old.first; v < old.outs; ++v) new_one(v);
      node.outs = static_cast<uint32_t>(tape.values.size());
      for (uint32_t v = old.outs; v < old.last; ++v) {
        const uint32_t was = tape.buffer_of[v], is = was == kNone ? kNone : name(was);
        value(was != kNone && is == kNone ? fresh(was, before, before) : is, v);
      }
      for (uint32_t i = 0; i < old.n_args; ++i) {
        Box box = tape.boxes[old.args + i];
        if (box.kind == Box::Kind::Tensor || box.kind == Box::Kind::Tensors) box.integer += static_cast<int64_t>(node.first) - old.first;
        tape.boxes.push_back(box);
      }
    }
    node.last = static_cast<uint32_t>(tape.values.size());
    inserted_.push_back({before, node});
  }

  void insert() {
    if (inserted_.empty()) return;
    std::stable_sort(inserted_.begin(), inserted_.end(), [](const Again& a, const Again& b) { return a.before < b.before; });
    std::vector<NodeRecord> nodes;
    auto next = inserted_.begin();
    for (uint32_t k = 0; k < tape_.nodes.size(); ++k) {
      for (; next != inserted_.end() && next->before == k; ++next) nodes.push_back(next->node);
      nodes.push_back(tape_.nodes[k]);
    }
    tape_.nodes = std::move(nodes);
  }

  Tape& tape_;
  std::vector<Room> rooms_;
  const uint32_t old_;                                  // buffers that there were
  std::vector<std::vector<uint32_t>> users_, writers_;  // by buffer the nodes, in the order of before
  std::vector<uint32_t> first_, last_;                  // ... the first and the last node that uses it
  std::vector<uint32_t> again_;                         // ... the one that takes its place, or kNone
  std::vector<uint32_t> needed_;                        // ... the last node before which something is computed again from it
  std::vector<Again> inserted_;
  const OpInfo *const norm_ = find_op("batch_norm"), *const clamped_ = find_op("batch_norm_clamp");
};

}  // namespace

std::vector<size_t> recompute(Tape& tape, std::vector<Room> rooms, double budget) { return Recomputation(tape, std::move(rooms)).run(budget); }

}  // namespace fl::graph
