#include "base/error.h"

#include <sstream>

namespace fl {

void Piece::put_characters(std::ostream& out, const void* value) { out << static_cast<const char*>(value); }

std::string joined(std::span<const Piece> pieces) {
  std::ostringstream out;
  for (const Piece& piece : pieces) piece.put_into(out);
  return out.str();
}

}  // namespace fl
