#include "backend/onednn/entry.h"

#include "base/fork_mutex.h"

namespace fl::onednn {
namespace {

ForkGate gate;

// Made when the module is loaded: a child that was forked while another thread made them would wait for ever.
const dnnl::engine* const the_engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);

dnnl::stream& stream() {
  thread_local dnnl::stream s(*the_engine);
  return s;
}

}  // namespace

// oneDNN's destructors free kernels that daemon threads of Python may be running.
void leave_for_good() { gate.close_for_exit(); }

Entry::Entry() : Entry(in_shared_loop() ? 1 : num_threads()) {}
Entry::Entry(int threads) : count_(threads) {
  ensure_signal_stack();
  gate.enter(in_parallel_region());
}
Entry::~Entry() { gate.leave(); }

const dnnl::engine& Entry::engine() const { return *the_engine; }

bool Entry::execute(const dnnl::primitive& primitive, const std::vector<dnnl_exec_arg_t>& args) const {
  return dnnl_primitive_execute(primitive.get(), stream().get(), static_cast<int>(args.size()), args.data()) == dnnl_success;
}

bool Entry::sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, const float* b, int64_t ldb,
                  float beta, float* c, int64_t ldc) const {
  return dnnl_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success;
}

}  // namespace fl::onednn
