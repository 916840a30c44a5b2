#include "storage/huge_pages.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace fl {

void HugePages::cover(char* p, size_t size_bytes) {
  char* const end = p + size_bytes;
  char* small = p;  // what lies from here on gets small pages
  if (system_.now_ns() >= next_try_ns_) {
    system_.advise(p, size_bytes, true);
    small = end;
    for (size_t at = 0; at < std::min(size_bytes, kTouched); at += kWindow) {
      const int64_t took = system_.touch_ns(p + at);
      if (took <= kDearNs) continue;
      dear(system_.now_ns(), took);
      small = p + at + kPage;
      break;
    }
  }
  if (small >= end) return;
  system_.advise(small, static_cast<size_t>(end - small), false);
  small_.emplace(small, end);
}

void HugePages::forget(char* p, size_t size_bytes) {
  char* const end = p + size_bytes;
  auto it = small_.lower_bound(p);
  if (it != small_.begin() && std::prev(it)->second > p) --it;
  while (it != small_.end() && it->first < end) {
    const auto [begin, rest] = *it;
    it = small_.erase(it);
    if (begin < p) remember(begin, p);
    if (rest > end) remember(end, rest);
  }
}

// What goes back goes back, also where there is no memory to say what is left of it.
void HugePages::remember(char* begin, char* end) noexcept try {
  small_.emplace(begin, end);
} catch (const std::bad_alloc&) {
}

void HugePages::improve_one() {
  const int64_t now = system_.now_ns();
  if (now < next_try_ns_) return;
  const auto [page, end] = *small_.begin();
  small_.erase(small_.begin());
  system_.advise(page, kPage, true);
  const std::optional<int64_t> took = system_.collapse_ns(page);
  if (!took) {  // no kernel will learn it while we run
    small_.clear();
    return;
  }
  dear(now, *took);
  if (page + kPage < end) small_.emplace(page + kPage, end);
}

}  // namespace fl
