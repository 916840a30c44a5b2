#include "base/device.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace fl {

std::string to_string(IntList values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out += ", ";
    out += std::to_string(values[i]);
  }
  return out + "]";
}

// In the order of DeviceKind.
static constexpr std::string_view kNames[] = {"cpu", "meta", "cuda", "mps", "xpu", "mtia", "xla", "hpu"};

std::string Device::str() const {
  std::string out(kNames[static_cast<int>(kind)]);
  if (index >= 0) out += ":" + std::to_string(index);
  return out;
}

Device Device::parse(const std::string& spec) {
  const size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  Device device;
  const auto* const at = std::find(std::begin(kNames), std::end(kNames), kind);
  if (at == std::end(kNames)) raise<ArgumentError>("device: Expected one of cpu, meta, cuda, mps, xpu, mtia, xla, hpu device type at start of device string: ", spec, " (no build has those after cuda)");
  device.kind = static_cast<DeviceKind>(at - std::begin(kNames));
  if (colon != std::string::npos) {
    int index = -1;
    const char* end = spec.data() + spec.size();
    const auto [at, failed] = std::from_chars(spec.data() + colon + 1, end, index);
    if (failed != std::errc() || at != end || index < 0 || index > 127)
      raise<ArgumentError>("device: Invalid device string: '", spec, "'; expected a number from 0 to 127 after the colon");
    device.index = static_cast<int8_t>(index);
  }
  return device;
}

std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }

void require_device(const Device& device) {
  if (device.kind == DeviceKind::CUDA)
    raise<DeviceError>("device '", device, "' is not available: this build of flambeau has no CUDA backend (Torch not compiled with CUDA enabled); use device='cpu'");
  if (device.kind > DeviceKind::CUDA) raise<DeviceError>("device '", device, "' is not available: flambeau has no backend for it; use device='cpu'");
}

}  // namespace fl
