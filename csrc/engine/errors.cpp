// Records of what went wrong, and their texts.
#include "engine/scheduler.h"

namespace fl::engine {
namespace {

std::string what_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

std::string pushed_at(SourceId source) {
  const std::string where = source && hooks.describe_source ? hooks.describe_source(source) : "";
  return where.empty() ? "" : ", pushed at " + where;
}

std::string joined(const std::vector<ErrorRef>& all, uint64_t more) {
  const uint64_t count = all.size() + more;
  std::string out = text(count, count == 1 ? " op of the engine has failed" : " ops of the engine have failed");
  for (const ErrorRef& e : all) out += "\n  " + describe(*e);
  if (more) out += text("\n  and ", more, " more");
  return out;
}

}  // namespace

namespace {
const ErrorRef no_memory = [] {
  auto record = std::make_shared<ErrorRecord>();
  record->op = "?";
  record->what = "there was no memory left to say what has failed";
  return record;
}();
}  // namespace

ErrorRef failure_of(const Op& op, std::exception_ptr cause) try {
  auto record = std::make_shared<ErrorRecord>();
  record->op = op.name;
  record->id = op.id;
  record->source = op.source;
  record->what = what_of(cause);
  record->cause = std::move(cause);
  return record;
} catch (const std::bad_alloc&) {
  return no_memory;
}

ErrorRef refusal_of(const Op& op, std::string what) {
  auto record = std::make_shared<ErrorRecord>();
  record->op = op.name;
  record->id = op.id;
  record->source = op.source;
  record->what = std::move(what);
  return record;
}

ErrorRef inherit(const ErrorRecord& error, const Op& op, const std::string& through) {
  auto record = std::make_shared<ErrorRecord>(error);
  if (record->chain.size() < ErrorRecord::kMaxChain) record->chain.push_back({op.name, through, op.id, op.source});
  else ++record->more;
  return record;
}

std::string describe(const ErrorRecord& e) {
  std::string out = text("op '", e.op, "' (#", e.id, ")", pushed_at(e.source), ": ", e.what);
  for (const auto& step : e.chain) {
    const std::string through = step.through.empty() ? "what that writes" : "'" + step.through + "'";
    out += text("\n    skipped: op '", step.op, "' (#", step.id, "), which reads ", through, pushed_at(step.source));
  }
  if (e.more) out += text("\n    and ", e.more, " more");
  return out;
}

OpErrors::OpErrors(std::vector<ErrorRef> all, uint64_t more) : EngineError(joined(all, more)), records(std::move(all)) {}

}  // namespace fl::engine
