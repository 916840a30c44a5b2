// Whether this is a build under AddressSanitizer. It sees uses after the end of a life only where memory goes back to its
// heap, so nothing keeps memory for the next one then.
#pragma once

namespace fl {

#if defined(__has_feature)
#define FL_HAS_FEATURE(what) __has_feature(what)
#else
#define FL_HAS_FEATURE(what) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || FL_HAS_FEATURE(address_sanitizer)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

}  // namespace fl
