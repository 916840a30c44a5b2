// Check functions of the op table: what a comparison can not say. Each throws with its own text.
#pragma once

#include "base/error.h"
#include "dispatch/op_types.h"

#if __has_include("dispatch/checks_index.h")
#include "dispatch/checks_index.h"
#endif
#if __has_include("dispatch/checks_nn.h")
#include "dispatch/checks_nn.h"
#endif

namespace fl::check {

void copyable(const char* op, const Tensor& x, const Tensor& src);
void single_element(const char* op, const char* arg, const Operand& value);
void viewable(const char* op, const Tensor& x, IntList size);
void permutation(const char* op, const Tensor& x, IntList dims);
void expandable(const char* op, const Tensor& x, IntList size);
void insertable(const char* op, const Tensor& x, int64_t dim);
void index_in_axis(const char* op, const Tensor& x, int64_t dim, int64_t index);
void positive_step(const char* op, int64_t step);
void unfoldable(const char* op, const Tensor& x, int64_t dim, int64_t size, int64_t step);
void inside_storage(const char* op, const Tensor& x, IntList size, IntList stride, int64_t offset);
void splits_axis(const char* op, const Tensor& x, IntList sizes, int64_t dim);
void joinable(const char* op, TensorList xs, int64_t dim);
void probability(const char* op, const char* arg, double p);
void floating(const char* op, const Tensor& x);
void range(const char* op, const char* low_name, double low, const char* high_name, double high);

void padding(const char* op, const Tensor& x, IntList pad);
void multinomial(const char* op, const Tensor& x, int64_t k, bool replacement);

}  // namespace fl::check
