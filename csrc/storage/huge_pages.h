// Which of the host's segments lie in huge pages.
//
// Note [Huge pages where they are cheap]
// A huge page (2 MiB) saves misses of the TLB for as long as it lives: a tenth of a convolutional network's training
// step. What it costs at first differs. Usually that is clearing it, 0.2 ms. But in a virtual machine that has lain idle
// the host has taken free memory back, and it takes back whole huge pages: each then costs 4 ms, where the same 2 MiB
// in small pages, of which the kernel keeps enough at hand, cost 0.7 ms. On a machine whose memory is in pieces a huge
// page has to be put together first, and is dear for that reason. A program's first step was three times as long.
//
// So huge pages are asked for and what they cost is looked at: the first of every 16 MiB of a segment is touched
// at once (it is about to be written anyway). Where one was dear, the rest of the segment and later ones get small pages, and
// nothing is tried again for kShare times as long as it took. After that segments may try again, and what lies in small
// pages is put together one huge page at a time, each after such a pause: the search costs a program no more than one part in
// kShare of its time, and long runs end in huge pages all the same.
//
//     segment   [H . . . . . . .][H . . . . . . .][D s s s s s s s s s s ...]     H: touched, cheap   D: touched, dear
//                16 MiB            16 MiB             small from here on           .: huge when it is used
//                                                     ^ improve() goes on here
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace fl {

class HugePages {
 public:
  static constexpr size_t kPage = size_t{2} << 20;
  static constexpr size_t kWindow = 8 * kPage;   // of which the first page is touched
  static constexpr size_t kTouched = 16 * kWindow;  // ... within this much of a segment
  static constexpr int64_t kDearNs = 1'500'000;  // twice what small pages cost for as much memory
  static constexpr int64_t kShare = 32;

  // What the kernel does, or a test.
  struct System {
    virtual ~System() = default;
    virtual int64_t now_ns() = 0;
    virtual void advise(char* p, size_t size_bytes, bool huge) = 0;
    // Makes the page present, or of small pages a huge one; says how long the processor was busy with it.
    virtual int64_t touch_ns(char* page) = 0;
    virtual std::optional<int64_t> collapse_ns(char* page) = 0;  // none where the kernel can not
  };
  explicit HugePages(System& system) : system_(system) {}

  void cover(char* p, size_t size_bytes);   // a fresh segment, aligned to kPage
  void forget(char* p, size_t size_bytes);  // what is about to be given back: any pages
  // Puts at most one huge page together, if there is something to do and it is time.
  void improve() {
    if (!small_.empty()) [[unlikely]] improve_one();
  }

 private:
  void improve_one();
  void remember(char* begin, char* end) noexcept;
  void dear(int64_t now, int64_t took) { next_try_ns_ = now + kShare * took; }

  System& system_;
  std::map<char*, char*> small_;  // what lies in small pages: begin -> end
  int64_t next_try_ns_ = 0;
};

}  // namespace fl
