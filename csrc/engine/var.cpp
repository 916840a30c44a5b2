#include "engine/var.h"

namespace fl {

SourceId (*current_source)() = nullptr;
std::string (*describe_source)(SourceId) = nullptr;

}  // namespace fl
