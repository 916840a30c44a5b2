// FL_AT_LOAD(f()): calls f when the library is loaded, so that what a static in f needs is made then.
//
// A static inside of a function is made at its first call, and other threads wait for that. A child that was forked
// in the middle would wait for ever. tools/check_layers.py wants one of these for every such static below the bindings
// (whose statics are made under the GIL, which whoever forks from Python has).
#pragma once

#define FL_AT_LOAD_NAME_2(line) made_at_load_##line
#define FL_AT_LOAD_NAME(line) FL_AT_LOAD_NAME_2(line)
#define FL_AT_LOAD(...) [[maybe_unused]] static const bool FL_AT_LOAD_NAME(__LINE__) = ((void)(__VA_ARGS__), true);
