#include "engine/var.h"

namespace fl {

SourceId (*current_source)() = nullptr;

}  // namespace fl
