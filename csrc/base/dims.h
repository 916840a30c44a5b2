// Sizes and strides: a short vector of int64 with room for eight inline, spilling to the heap beyond.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>

namespace fl {

using IntList = std::span<const int64_t>;

class Dims {
 public:
  static constexpr int kInline = 8;

  Dims() = default;
  explicit Dims(int size, int64_t value = 0) {
    std::fill_n(room_for(size), size, value);
    size_ = size;
  }
  Dims(IntList values) { assign(values.data(), static_cast<int>(values.size())); }
  Dims(std::initializer_list<int64_t> values) { assign(values.begin(), static_cast<int>(values.size())); }
  Dims(const Dims& other) { assign(other.data(), other.size_); }
  Dims(Dims&& other) noexcept { steal(other); }
  Dims& operator=(const Dims& other) {
    if (this != &other) assign(other.data(), other.size_);
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this != &other) {
      if (capacity_ > kInline) delete[] heap_;
      steal(other);
    }
    return *this;
  }
  ~Dims() {
    if (capacity_ > kInline) delete[] heap_;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* data() { return capacity_ > kInline ? heap_ : inline_; }
  const int64_t* data() const { return capacity_ > kInline ? heap_ : inline_; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t& operator[](int i) { return data()[i]; }
  int64_t operator[](int i) const { return data()[i]; }
  int64_t& back() { return data()[size_ - 1]; }
  int64_t back() const { return data()[size_ - 1]; }
  operator IntList() const { return {data(), static_cast<size_t>(size_)}; }

  void push_back(int64_t value) {
    room_for(size_ + 1)[size_] = value;
    ++size_;
  }
  void pop_back() { --size_; }
  void insert(int at, int64_t value) {
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(int at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }
  void resize(int size, int64_t value = 0) {
    int64_t* to = room_for(size);
    if (size > size_) std::fill(to + size_, to + size, value);
    size_ = size;
  }
  void clear() { size_ = 0; }

  friend bool operator==(const Dims& a, const Dims& b) {
    return a.size_ == b.size_ && std::memcmp(a.data(), b.data(), sizeof(int64_t) * a.size_) == 0;
  }

 private:
  // The elements, with room for n: who makes the room knows where it is, and data() need not ask again.
  int64_t* room_for(int n) {
    if (n <= capacity_) return data();
    const int grown = std::max(n, 2 * capacity_);
    auto* bigger = new int64_t[grown];
    std::copy(begin(), end(), bigger);
    if (capacity_ > kInline) delete[] heap_;
    heap_ = bigger;
    capacity_ = grown;
    return bigger;
  }
  void assign(const int64_t* values, int n) {
    std::copy_n(values, n, room_for(n));
    size_ = n;
  }
  void steal(Dims& other) noexcept {
    size_ = other.size_;
    capacity_ = other.capacity_;
    if (capacity_ > kInline) {
      heap_ = other.heap_;
      other.capacity_ = kInline;
      other.size_ = 0;
    } else {
      std::copy_n(other.inline_, size_, inline_);
    }
  }

  int32_t size_ = 0;
  int32_t capacity_ = kInline;
  union {
    int64_t inline_[kInline];
    int64_t* heap_;
  };
};

inline bool operator==(IntList a, IntList b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

// A size in arithmetic: what leaves 64 bits stays at the nearest end of them, and so past all that memory can address,
// which every new tensor refuses (checked_numel). Shape rules compute with it (tools/check_idioms.py holds that).
class Extent {
 public:
  constexpr Extent(int64_t value) : value_(value) {}
  constexpr operator int64_t() const { return value_; }
  friend constexpr Extent operator+(Extent a, Extent b) {
    int64_t out = 0;
    return __builtin_add_overflow(a.value_, b.value_, &out) ? end(a.value_ < 0) : Extent(out);
  }
  friend constexpr Extent operator-(Extent a, Extent b) {
    int64_t out = 0;
    return __builtin_sub_overflow(a.value_, b.value_, &out) ? end(a.value_ < 0) : Extent(out);
  }
  friend constexpr Extent operator*(Extent a, Extent b) {
    int64_t out = 0;
    return __builtin_mul_overflow(a.value_, b.value_, &out) ? end((a.value_ < 0) != (b.value_ < 0)) : Extent(out);
  }
  friend constexpr Extent operator/(Extent a, Extent b) { return b.value_ == -1 ? Extent(0) - a : Extent(a.value_ / b.value_); }
  // With a plain number the other side decides, so that nothing falls back to unchecked arithmetic.
  template <std::integral T> friend constexpr Extent operator+(Extent a, T b) { return a + Extent(static_cast<int64_t>(b)); }
  template <std::integral T> friend constexpr Extent operator-(Extent a, T b) { return a - Extent(static_cast<int64_t>(b)); }
  template <std::integral T> friend constexpr Extent operator*(Extent a, T b) { return a * Extent(static_cast<int64_t>(b)); }
  template <std::integral T> friend constexpr Extent operator/(Extent a, T b) { return a / Extent(static_cast<int64_t>(b)); }
  template <std::integral T> friend constexpr Extent operator+(T a, Extent b) { return Extent(static_cast<int64_t>(a)) + b; }
  template <std::integral T> friend constexpr Extent operator-(T a, Extent b) { return Extent(static_cast<int64_t>(a)) - b; }
  template <std::integral T> friend constexpr Extent operator*(T a, Extent b) { return Extent(static_cast<int64_t>(a)) * b; }

 private:
  static constexpr Extent end(bool low) { return Extent(low ? INT64_MIN : INT64_MAX); }
  int64_t value_;
};

// "[2, 3]", as shapes are written in every message.
std::string to_string(IntList values);

}  // namespace fl
