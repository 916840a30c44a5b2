// Element-wise execution: one driver for every op whose table entry has an `each:` body.
//
// A body becomes, per instruction set and compute type (float, double, int32, int64, of some ops complex), one loop over
// contiguous tiles: TileFn. The driver broadcasts, converts and gathers operands into tiles where they
// are not already contiguous in the compute type, so that the loops know nothing of strides or dtypes:
//
//      operand (any dtype, any strides) --gather/convert--> tile --TileFn--> tile --convert--> output
//
// Where an operand is contiguous in the compute type its own memory is the tile. The other six dtypes
// are computed in float (16-bit floats) or int32 (small integers and bool) and narrowed on the way out; ops whose
// entry says `bytes` have a loop for those of one byte.
#pragma once

#include "base/scalar.h"
#include "dispatch/registers.h"
#include "tensor/tensor.h"

namespace fl {

// out[i] = f(in[0][i], in[1][i], ..., params) for i < n, in each of `rows` rows. Input and output may be the same tile.
// steps: bytes from row to row, of the output and then of each input.
using TileFn = void (*)(int64_t n, void* out, const void* const* in, const Scalar* params, int64_t rows, const int64_t* steps);
constexpr int64_t kNoSteps[16] = {};  // of a single row, for as many operands as there may be

// The loops of one op in one compute type.
struct TileLoops {
  TileFn all;     // null: the op has no such compute type
  TileFn single;  // reads one element of the last operand, for all i; null: the op has no such loop
  TileFn first;   // ... of the first one
  bool bool_out;  // they write one byte (0 or 1) per element instead of the compute type
  const RegisterRuns* registers;  // of float; null: the op has none
  TileFn half_bits = nullptr;     // over the bits of 16-bit floats of either kind; null: those are computed as floats
};

// Which types of one byte a loop over uint8 computes without widening them. Where there is one there is another over int16.
enum class Bytes : uint8_t {
  None,
  Ints,
  All,    // bool, too
  Order,  // uint8 and bool, and int8 by another: what is computed depends on which is larger
  Bits  // none; but what is made of uint64 depends on its bits alone, or on nothing
};

// The loops of one op for the processor at hand.
struct EachKernel {
  TileFn all[10], single[10], first[10];  // float, double, int32, int64, uint8, complex of float, of double, int16, bool, int8
  bool bool_out;
  Bytes bytes;
  RegisterRuns registers;
  TileFn half_bits = nullptr;
  TileLoops get(DType compute) const {
    const int i = compute == DType::Float32     ? 0
                  : compute == DType::Float64   ? 1
                  : compute == DType::Int32     ? 2
                  : compute == DType::Int64     ? 3
                  : compute == DType::Complex64 ? 5
                  : is_complex(compute)         ? 6
                  : compute == DType::Int16     ? 7
                  : compute == DType::Bool      ? 8
                  : compute == DType::Int8      ? 9
                                                : 4;
    return {all[i], single[i], first[i], bool_out, compute == DType::Float32 && registers.of ? &registers : nullptr,
            compute == DType::Float32 ? half_bits : nullptr};
  }
};

// The type as which a loop reads and writes elements of type t without converting them. Loops over uint8 take every byte but that of a bool, which is
// read as 0 or 1 (also by loops over bools: `read_byte`); what they make of those is 0 or 1 again.
constexpr DType read_as(DType t, DType compute) { return compute == DType::UInt8 && t == DType::Int8 ? DType::UInt8 : t; }
constexpr DType written_as(DType t, DType compute) {
  return compute == DType::UInt8 && (t == DType::Bool || t == DType::Int8) ? DType::UInt8 : t;
}

// One input of an element-wise op as the driver sees it: broadcast to the output's shape already.
struct EachInput {
  const void* data;
  DType dtype;
  const int64_t* strides;  // in elements, one per output dim, 0 where broadcast; null: one element for all
};

// Runs the loops over `out` (already allocated, any strides without overlap). Inputs may be `out` itself (same
// geometry), never partly overlapping it.
void run_tiles(const TileLoops& loops, DType compute, const Scalar* params, const Tensor& out,
               const EachInput* inputs, int n_inputs);

// dst[...] = src[...] with conversion and broadcasting of src's strides; same shape expected (blocked
// where it is a transpose). Does not handle overlap.
void copy_elements(const Tensor& dst, const Tensor& src);
// Whether bytes of one may be bytes of the other: storages may lie in one array of NumPy's.
bool may_share_bytes(const Tensor& a, const Tensor& b);
void fill_elements(const Tensor& dst, const Scalar& value);

// n contiguous elements from one dtype to another (C++ conversion rules; NaN to integer gives some value).
void convert_elements(void* dst, DType to, const void* src, DType from, int64_t n);

}  // namespace fl
