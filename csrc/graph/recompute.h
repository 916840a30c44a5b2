// What is computed twice instead of kept.
//
// Note [Computed again]
// What a forward pass makes and a backward reads is kept over the fullest moment of a step. Much of it is cheap to make: an activation, what a norm
// gives, a concatenation. Where a budget asks for it (a share of the bytes that are in use at the fullest moment), such buffers are let go after
// their last use before that moment, and the nodes that made them are put in again before their next use, as long as what they read is there then, unwritten,
// or is little. A batch norm is made again by the statistics that it saved. Draws are never made again. The bits are the same.
#pragma once

#include "graph/tape.h"

namespace fl::graph {

// Of each buffer of a tape.
struct Room {
  size_t size_bytes;
  bool own;     // memory that counts: nobody else holds it
  bool may_go;  // made by the tape's nodes, and seen by nobody else
};

// Puts nodes into the tape so that at most `budget` of the bytes are in use at once, if that can be. Values of which another buffer takes care
// from now on have its number and no storage, as those of new nodes that look at new buffers have. Returns the sizes of the new
// buffers, which are numbered behind the others.
std::vector<size_t> recompute(Tape& tape, std::vector<Room> rooms, double budget);

}  // namespace fl::graph
