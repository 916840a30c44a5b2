// One step of an optimizer over all parameters at once: their memory is cut into chunks, and the chunks of
// all parameters are shared out over the threads. Formulas and their order are PyTorch's.
//
// Per index, the tensors of all lists have one shape and one (dense) layout. `steps` count from 1.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace fl::optim {

using Flags = std::span<const uint8_t>;
using Steps = std::span<const int64_t>;

// `bufs` is empty without momentum; first[i] says that bufs[i] holds nothing yet.
void sgd(TensorList params, TensorList grads, TensorList bufs, Flags first, double lr, double momentum, double dampening, double weight_decay,
         bool nesterov, bool maximize);

// `decoupled` weight decay is AdamW. max_exp_avg_sqs is empty without amsgrad.
void adam(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList max_exp_avg_sqs, Steps steps, double lr,
          double beta1, double beta2, double eps, double weight_decay, bool decoupled, bool amsgrad, bool maximize);

// grad_avgs is given for the centered form, momentum_buffers for momentum > 0.
void rmsprop(TensorList params, TensorList grads, TensorList square_avgs, TensorList grad_avgs, TensorList momentum_buffers, double lr, double alpha,
             double eps, double weight_decay, double momentum, bool maximize);

void adagrad(TensorList params, TensorList grads, TensorList state_sums, Steps steps, double lr, double lr_decay, double weight_decay, double eps,
             bool maximize);

// The norm of all elements together, summed in double in a fixed order: into `out`, 0-d float32 or float64.
void total_norm(TensorList tensors, double norm_type, const Tensor& out);

void scale(TensorList tensors, double factor);
void scale(TensorList tensors, const Tensor& factor);  // 0-d

}  // namespace fl::optim
