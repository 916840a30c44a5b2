// A test framework in one page: TEST(name) { CHECK(...); }. A failed check prints and lets the test go on.
//
//   core_tests            runs everything
//   core_tests refcount   runs the tests whose name contains "refcount"
#pragma once

#include <atomic>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace fl::test {

struct Case {
  const char* name;
  void (*run)();
};
std::vector<Case>& cases();
extern std::atomic<int> failures;

struct Register {
  Register(const char* name, void (*run)()) { cases().push_back({name, run}); }
};

inline void fail(const char* file, int line, const std::string& what) {
  std::ostringstream out;
  out << file << ":" << line << ": " << what << "\n";
  std::cerr << out.str();
  ++failures;
}

template <class A, class B>
void check_equal(const char* file, int line, const char* text, const A& a, const B& b) {
  if (a == b) return;
  std::ostringstream out;
  out << text << ": " << a << " != " << b;
  fail(file, line, out.str());
}

// Runs f(thread number) on `n` threads at once.
template <class F>
void on_threads(int n, F f) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < n; ++t)
    threads.emplace_back([&, t] {
      ++ready;
      while (ready.load() < n) std::this_thread::yield();
      f(t);
    });
  for (auto& t : threads) t.join();
}

}  // namespace fl::test

#if defined(__SANITIZE_THREAD__)
#define FL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FL_TSAN 1
#endif
#endif
#ifndef FL_TSAN
#define FL_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FL_ASAN 1
#endif
#endif
#ifndef FL_ASAN
#define FL_ASAN 0
#endif

#define TEST(name)                                             \
  static void name();                                          \
  static const ::fl::test::Register register_##name(#name, name); \
  static void name()

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) ::fl::test::fail(__FILE__, __LINE__, "not true: " #condition); \
  } while (0)

#define CHECK_EQ(a, b) ::fl::test::check_equal(__FILE__, __LINE__, #a " == " #b, (a), (b))

// `text` has to occur in the message.
#define CHECK_THROWS(expression, type, text)                                                            \
  do {                                                                                                  \
    bool thrown = false;                                                                                \
    try {                                                                                               \
      (void)(expression);                                                                               \
    } catch (const type& e) {                                                                           \
      thrown = true;                                                                                    \
      if (std::string(e.what()).find(text) == std::string::npos)                                        \
        ::fl::test::fail(__FILE__, __LINE__, std::string("message '") + e.what() + "' lacks '" + (text) + "'"); \
    }                                                                                                   \
    if (!thrown) ::fl::test::fail(__FILE__, __LINE__, #expression " did not throw " #type);             \
  } while (0)
