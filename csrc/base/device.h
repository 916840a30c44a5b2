// Where bytes live. `meta` has shapes and types but no bytes; `cuda` and what follows are known by name only.
#pragma once

#include <cstdint>
#include <string>

namespace fl {

enum class DeviceKind : uint8_t { CPU, Meta, CUDA, MPS, XPU, MTIA, XLA, HPU };

struct Device {
  DeviceKind kind = DeviceKind::CPU;
  int8_t index = -1;  // -1: not given
  bool operator==(const Device& other) const { return kind == other.kind && index == other.index; }
  bool is_meta() const { return kind == DeviceKind::Meta; }
  std::string str() const;
  // "cpu", "meta", "cuda", "cuda:1". Throws ArgumentError for anything else.
  static Device parse(const std::string& spec);
};

std::ostream& operator<<(std::ostream& out, const Device& device);

// Throws DeviceError, with what would be needed, when this build or machine has no such device.
void require_device(const Device& device);

}  // namespace fl
