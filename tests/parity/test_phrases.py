"""What programs, and people who search, look for in an error: PyTorch's phrase is in ours."""

import importlib

import pytest
import torch

import flambeau

# Each statement, and the phrase.
PHRASES = {
    "T.autograd.grad(2 * T.ones(1, requires_grad=True), T.ones(1, requires_grad=True))": "Set allow_unused=True",
    "(T.ones(1, requires_grad=True) * 0.5j).sum().backward()": "grad can be implicitly created only for real scalar outputs",
    "(2 * T.ones(1, requires_grad=True)).requires_grad_(False)": "you can only change requires_grad flags of leaf variables",
    'T.ones(2).register_hook(print)': "cannot register a hook on a tensor that doesn't require gradient",
    "(2 * T.ones(1, requires_grad=True)).register_post_accumulate_grad_hook(print)": "post accumulate grad hooks cannot be registered on non-leaf tensors",
    'T.ones(2).retain_grad()': "can't retain_grad on Tensor that has requires_grad=False",
    'setattr(T.ones(1, requires_grad=True), "grad", 0)': 'expected to be a Tensor or None',
    "T.ones(1, 6).expand(5, 6).copy_(T.ones(5, 6))": "more than one element of the written-to tensor refers to a single memory location",
    "T.ones(2).mT": "only supported on matrices",
    "T.ones(2, 2).reshape(-1, -1)": "only one dimension can be inferred",
    "T.ones(2, 2).sum((0, 0))": "appears multiple times in the list of dims",
    "T.view_as_complex(T.ones(3))": "Tensor must have a last dimension of size 2",
    "T.broadcast_to(T.ones(2), (3,))": "The expanded size of the tensor (3) must match the existing size (2) at non-singleton dimension 0",
    "T.tensor(1)[0]": "invalid index of a 0-dim tensor",
    "T.zeros(3)[::-1]": "step must be greater than zero",
    "T.zeros(3)[T.tensor([1.0])]": "tensors used as indices must be long, int, byte or bool tensors",
    "T.zeros(3)[T.tensor([True, False])]": "The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [3] at index 0",
    "T.zeros(3, 3)[[0, 1], [0, 1, 2]]": "shape mismatch: indexing tensors could not be broadcast together",
    "T.tensor(True) - T.tensor(True)": "Subtraction, the `-` operator, with two bool tensors is not supported",
    "-T.tensor(True)": "Negation, the `-` operator, on a bool tensor is not supported",
    "+T.tensor(True)": "The `+` operator, on a bool tensor is not supported",
    "T.tensor([2]) ** -1": "Integers to negative integer powers are not allowed",
    "T.empty(0, 2).amax(0)": "Expected reduction dim 0 to have non-zero size",
    "T.empty(0).argmax()": "Expected reduction dim to be specified for input.numel() == 0",
    "T.zeros(2, 2).gather(0, T.tensor([0]))": "Index tensor must have the same number of dimensions as input tensor",
    "T.stack([])": "stack expects a non-empty TensorList",
    "T.stack([T.ones(2), T.ones(3)])": "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
    "T.cat([])": "expected a non-empty list of Tensors",
    "T.arange(0, 5, 0)": "step must be nonzero",
    "T.arange(0, 5, -1)": "upper bound and lower bound inconsistent with step sign",
    'T.randint(3, 3, (2,))': "random_ expects 'from' to be less than 'to'",
    "T.tensor([[1], [2, 3]])": "expected sequence of length 1 at dim 1 (got 2)",
    "T.tensor(None)": "Could not infer dtype of NoneType",
    "T.empty(-1)": "Trying to create tensor with negative dimension",
    "T.ones(2, 3) @ T.ones(2, 3)": "mat1 and mat2 shapes cannot be multiplied",
    "T.mm(T.ones(2, 3), T.ones(2, 3))": "mat1 and mat2 shapes cannot be multiplied",
    "T.nn.Linear(3, 4)(T.ones(2, 5))": "mat1 and mat2 shapes cannot be multiplied",
    "T.nn.Conv2d(3, 4, 3)(T.ones(1, 2, 8, 8))": "to have 3 channels, but got 2 channels instead",
    "T.ones(2, 3) + T.ones(2, 4)": "size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    "T.ones(3).add_(T.ones(4))": "size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0",
    "T.cat([T.ones(2, 3), T.ones(2, 4)])": "Sizes of tensors must match except in dimension 0",
    "T.ones(2, 3).view(4)": "shape '[4]' is invalid for input of size 6",
    "T.ones(2, 3).reshape(-1, 4)": "shape '[-1, 4]' is invalid for input of size 6",
    "T.nn.Embedding(3, 4)(T.tensor([5]))": "index out of range in self",
    "T.ones(2)[5]": "index 5 is out of bounds for dimension 0 with size 2",
    "T.ones(2, 3)[0, 3]": "index 3 is out of bounds for dimension 1 with size 3",
    "T.ones(2)[0, 0]": "too many indices for tensor of dimension 1",
    "T.gather(T.ones(2, 2), 0, T.tensor([[5]]))": "index 5 is out of bounds for dimension 0 with size 2",
    "T.ones(2, 3).sum(5)": "Dimension out of range (expected to be in range of [-2, 1], but got",
    "T.ones(2).unsqueeze(5)": "Dimension out of range (expected to be in range of [-2, 1], but got",
    "T.ones(2, requires_grad=True).numpy()": "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    "T.ones(2, requires_grad=True).add_(1)": "a leaf Variable that requires grad is being used in an in-place operation",
    "T.ones(2, requires_grad=True)[0].add_(1)": "a view of a leaf Variable that requires grad is being used in an in-place operation",
    "T.ones(2).sum().backward()": "does not require grad and does not have a grad_fn",
    "(2 * T.ones(2, requires_grad=True)).backward()": "grad can be implicitly created only for scalar outputs",
    "twice(T)": "Trying to backward through the graph a second time",
    "overwritten(T)": "has been modified by an inplace operation",
    "bool(T.ones(2))": "Boolean value of Tensor with more than one value is ambiguous",
    "bool(T.ones(0))": "Boolean value of Tensor with no values is ambiguous",
    "T.ones(2).item()": "a Tensor with 2 elements cannot be converted to Scalar",
    "T.ones(2, dtype=T.int64).requires_grad_()": "nly Tensors of floating point",
    "T.ones(2, dtype=T.int64).exp_()": "can't be cast to the desired output type",
    "T.ones(2, dtype=T.int64).add_(1.5)": "can't be cast to the desired output type",
    "copy.deepcopy(T.ones(2, requires_grad=True) * 2)": "Only Tensors created explicitly by the user (graph leaves)",
    "T.nn.Linear(2, 2).load_state_dict({})": 'rror(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: "weight", "bias"',
    "T.nn.Linear(1, 1, bias=False).load_state_dict({'weight': T.ones(1, 1), 'x': T.ones(1)})": 'Unexpected key(s) in state_dict: "x"',
    "T.nn.Linear(1, 1, bias=False).load_state_dict({'weight': T.ones(2, 1)})": "size mismatch for weight",
    "T.empty(10**15)": "DefaultCPUAllocator: can't allocate memory",
    "T.autograd.grad(T.ones(1, requires_grad=True) * 2, [])": "cannot be empty",
    "T.autograd.backward(T.ones(1, requires_grad=True) * 2, inputs=[])": "cannot be empty",
    "unused_and_made(T)": "Expected allow_unused to be True or not passed when",
    "T.autograd.Function.apply(T.ones(1))": "ou must implement the forward function",
    "function(T).apply(T.ones(1, requires_grad=True)).backward()": "ou must implement either the backward or vjp method",
    "function(T, backward=same, vjp=same).apply(T.ones(1, requires_grad=True)).backward()": "Implementing both 'backward' and 'vjp'",
    "function(T, backward=same)()(T.ones(1))": "Legacy autograd function with non-static forward method is deprecated",
    "function(T, forward=dirty, backward=same).apply(T.ones(1, requires_grad=True).clone())": "Some elements marked as dirty during the forward",
    "T.autograd.gradcheck(function(T, backward=twice_that).apply, leaf(T))": "Jacobian mismatch for output 0 with respect to input 0",
    "T.autograd.gradcheck(function(T, backward=and_more).apply, leaf(T), atol=0.1)": "backward not multiplied by grad_output",
    "T.autograd.gradcheck(function(T, backward=sparse).apply, leaf(T))": "grad is incorrect layout",
    "T.autograd.gradcheck(function(T, backward=drifting).apply, leaf(T))": "Backward is not reentrant",
    "T.autograd.gradcheck(T.sin, T.ones(1))": "at least one input tensor to require gradient",
    "T.autograd.gradcheck(T.sin, leaf(T), check_backward_ad=False)": "Expected at least one of check_forward_ad",
    "T.utils.checkpoint.checkpoint(T.sin, leaf(T), use_reentrant=True, foo=1)": "Unexpected keyword arguments",
    "T.utils.checkpoint.checkpoint(T.sin, leaf(T), use_reentrant=False, determinism_check='x')": "determinism_check should be one of",
    "T.autograd.functional.vjp(lambda x: x.sum(1), T.ones(2, 2), T.ones(3))": "v has invalid size: should be",
    "T.autograd.functional.vjp(lambda x: x.sum(1), T.ones(2, 2))": "The vector v can only be None if",
    "T.autograd.functional.jvp(lambda x: x.sum(1), T.ones(2, 2))": "The vector v can only be None if",
    "T.autograd.functional.vjp(lambda x: (x, 3), T.ones(2))": "The outputs of the user-provided function given to vjp must be either a Tensor or",
    "T.autograd.functional.vjp(lambda x: x, 3)": "The inputs given to vjp must be either a Tensor or a tuple",
    "T.autograd.functional.hessian(lambda x: x, T.ones(2))": "the function given to hessian should contain a single element",
    "T.autograd.functional.hessian(lambda x: (x, x), T.ones(2))": "The function given to hessian should return a single Tensor",
    "T.autograd.functional.jacobian(lambda x: x.detach(), T.ones(2), strict=True)": "Output 0 of the user-provided function does not require",
    "T.autograd.functional.jacobian(lambda x, y: x * 2, (T.ones(2), T.ones(2)), strict=True)": "user-provided function is independent of input 1",
    "T.einsum('ij,jk', T.ones(2, 2))": "fewer operands were provided than specified in the equation",
    "T.einsum('ij', T.ones(2, 2), T.ones(2, 2))": "more operands were provided than specified in the equation",
    "T.einsum('ij->k', T.ones(2, 2))": "output subscript k does not appear in the equation for any input operand",
    "T.einsum('ij->ii', T.ones(2, 2))": "output subscript i appears more than once in the output",
    "T.block_diag(T.ones(1, 1, 1))": "Input tensors must have 2 or fewer dimensions",
    "T.broadcast_shapes((-1,))": "Attempting to broadcast a dimension with negative length!",
    "T.manual_seed(2**64)": "Overflow when unpacking long long",
    "T.FloatStorage(device='cpu')": "'device' cannot be specified",
    "T.FloatStorage(0, 0)": "Too many positional arguments",
    "T.FloatStorage('text')": "invalid data type 'str'",
    "T.FloatStorage(T.ones(1))": "Argument type not recognized",
    "T.TypedStorage(wrap_storage=T.UntypedStorage(4))": "Argument 'dtype' must be specified",
}

# Those of layers, losses, optimizers, schedulers and data; the names are those of `names_of`.
PHRASES |= {
    "F.batch_norm(o(1, 2), None, None, training=True)": "Expected more than 1 value per channel when training",
    "nn.BatchNorm1d(2)(o(2))": "expected 2D or 3D input (got 1D input",
    "nn.BatchNorm2d(2)(o(2, 2))": "expected 4D input (got 2D input",
    "nn.SyncBatchNorm(2)(o(2))": "expected at least 2D input (got 1D input",
    "nn.InstanceNorm2d(3, affine=True)(o(2, 2, 4, 4))": "expected input's size at dim=1 to match num_features (3), but got: 2",
    "nn.InstanceNorm2d(3)(o(2, 3, 1, 1))": "Expected more than 1 spatial element when training",
    "nn.GroupNorm(2, 3)": "num_channels (3) must be divisible by num_groups (2",
    "F.local_response_norm(o(2), 2)": "Expected 3D or higher dimensionality",
    "nn.LSTM(2, 3)(o(1, 1, 4))": "input.size(-1) must be equal to input_size. Expected 2, got 4",
    "nn.LSTM(2, 3)(o(1))": "LSTM: Expected input to be 2D or 3D, got 1D instead",
    "nn.RNN(2, 3)(o(1))": "RNN: Expected input to be 2D or 3D, got 1D",
    "nn.RNN(2, 3, nonlinearity='zz')": "Unknown nonlinearity 'zz'",
    "nn.LSTM(2, 3)(o(1, 1, 2), (o(1, 2, 3), o(1, 2, 3)))": "Expected hidden[0] size (1, 1, 3), got [1, 2, 3]",
    "nn.LSTM(2, 3)(o(1, 1, 2), (o(1, 3), o(1, 3)))": "For batched 3-D input, hx and cx should also be 3-D",
    "nn.LSTM(2, 3)(o(1, 2), (o(1, 1, 3), o(1, 1, 3)))": "For unbatched 2-D input, hx and cx should also be 2-D",
    "nn.GRU(2, 3)(o(1, 1, 2), o(1, 2, 3))": "Expected hidden size (1, 1, 3), got [1, 2, 3]",
    "nn.GRU(2, 3)(o(1, 1, 2), o(1, 3))": "For batched 3-D input, hx should also be 3-D",
    "nn.LSTM(2, 0)": "hidden_size must be greater than zero",
    "nn.LSTM(2, 3, num_layers=0)": "num_layers must be greater than zero",
    "nn.LSTM(2, 3, proj_size=3)": "proj_size has to be smaller than hidden_size",
    "nn.LSTM(2, 3, proj_size=-1)": "proj_size should be a positive integer or zero to disable projections",
    "nn.GRU(2, 3, proj_size=2)": "proj_size argument is only supported for LSTM, not RNN or GRU",
    "nn.LSTMCell(2, 3)(o(1, 4))": "input has inconsistent input_size: got 4 expected 2",
    "nn.LSTMCell(2, 3)(o(1, 1, 2))": "LSTMCell: Expected input to be 1D or 2D, got 3D instead",
    "nn.LSTMCell(2, 3)(o(1, 2), (o(2, 3), o(2, 3)))": "Input batch size 1 doesn't match hidden0 batch size 2",
    "nn.RNNCell(2, 3, nonlinearity='zz')(o(1, 2))": "Unknown nonlinearity: zz",
    "nn.utils.rnn.pack_padded_sequence(o(2, 2, 2), [1, 2])": "`lengths` array must be sorted in decreasing order when `enforce_sorted` is",
    "nn.utils.rnn.pack_padded_sequence(o(2, 2, 2), [2, 0])": "Length of all samples has to be greater than 0",
    "nn.utils.rnn.pack_padded_sequence(o(2, 2, 2), [2, 1, 1])": "Expected `len(lengths)` to be equal to batch_size, but got 3",
    "nn.utils.rnn.pad_sequence(3)": "pad_sequence: Expected iterable for input sequences, but got arg of type: <class 'int'>",
    "nn.utils.rnn.pad_sequence([])": "received an empty list of sequences",
    "nn.utils.rnn.pad_sequence([o(2)], padding_side='zz')": "Expected padding_side to be one of left or right, but got zz",
    "nn.MultiheadAttention(3, 2)": "embed_dim must be divisible by num_heads",
    "nn.MultiheadAttention(0, 2)": "embed_dim and num_heads must be greater than 0, got embed_dim=0 and num_heads=2",
    "nn.MultiheadAttention(4, 2)(o(2, 4), o(2, 2, 4), o(2, 2, 4))": "For unbatched (2-D) `query`, expected `key` and `value` to be 2-D",
    "nn.MultiheadAttention(4, 2)(o(4), o(4), o(4))": "query should be unbatched 2D or batched 3D tensor but received 1-D query tensor",
    "nn.MultiheadAttention(4, 2)(o(2, 2, 3), o(2, 2, 3), o(2, 2, 3))": "was expecting embedding dimension of 4, but got 3",
    "nn.MultiheadAttention(4, 2)(o(2, 2, 4), o(3, 2, 4), o(2, 2, 4))": "does not match value shape",
    "nn.MultiheadAttention(4, 2)(o(2, 2, 4), o(2, 2, 4), o(2, 2, 4), attn_mask=o(3, 3))": "The shape of the 2D attn_mask is",
    "nn.MultiheadAttention(4, 2)(o(2, 2, 4), o(2, 2, 4), o(2, 2, 4), attn_mask=o(3))": "expected `attn_mask` to be `None`, 2-D or 3-D but",
    "nn.MultiheadAttention(4, 2)(o(2, 2, 4), o(2, 2, 4), o(2, 2, 4), key_padding_mask=o(3, 3, dtype=T.bool))": "Expected",
    "nn.MultiheadAttention(4, 2)(o(2, 2, 4), o(2, 2, 4), o(2, 2, 4), key_padding_mask=o(2, dtype=T.bool))": "xpected `key_padding_mask` to",
    "nn.TransformerEncoderLayer(4, 2, activation='zz')": "activation should be relu/gelu, not zz",
    "nn.Transformer(4, 2, 1, 1, 4)(o(2, 2, 5), o(2, 2, 4))": "the feature number of src and tgt must be equal to d_model",
    "nn.Transformer(4, 2, 1, 1, 4)(o(2, 3, 4), o(2, 2, 4))": "the batch number of src and tgt must be equal",
    "nn.Conv2d(3, 4, 3, groups=2)": "in_channels must be divisible by groups",
    "nn.Conv2d(4, 3, 3, groups=2)": "out_channels must be divisible by groups",
    "nn.Conv2d(3, 4, 3, groups=0)": "groups must be a positive integer",
    "nn.Conv2d(3, 4, 3, padding='zz')": "Invalid padding string 'zz', should be one of",
    "nn.Conv2d(3, 4, 3, padding='same', stride=2)": "padding='same' is not supported for strided convolutions",
    "nn.Conv2d(3, 4, 3, padding_mode='zz')": "padding_mode must be one of",
    "nn.ConvTranspose2d(3, 4, 3, padding_mode='reflect')": 'Only "zeros" padding mode is supported',
    "nn.ConvTranspose2d(3, 4, 3, stride=2)(o(1, 3, 4, 4), output_size=(20, 20))": "but valid sizes range from",
    "nn.ConvTranspose2d(3, 4, 3, stride=2)(o(1, 3, 4, 4), output_size=(20, ))": "output_size must have 2 or 4 elements (got 1",
    "nn.MaxPool2d(2)(o(2))": "non-empty 3D or 4D (batch mode) tensor expected for input",
    "nn.MaxPool1d(2)(o(2))": "max_pool1d: Expected 2D or 3D (batch mode) tensor",
    "nn.AvgPool2d(2, divisor_override=0)(o(1, 1, 4, 4))": "divisor must be not zero",
    "nn.AdaptiveAvgPool2d(2)(o(2))": "Expected 3D or 4D tensor, but got [2]",
    "nn.AdaptiveMaxPool2d(2)(o(2))": "Expected 3D or 4D tensor, but got",
    "nn.MaxUnpool2d(2)(o(1, 1, 2, 2), o(1, 1, 3, 2, dtype=T.int64))": "Expected shape of indices to be same as that of the input tensor",
    "nn.MaxUnpool2d(2)(o(1, 1, 2, 2), o(1, 1, 2, 2, dtype=T.int64)*100)": "Found an invalid max index: 100",
    "nn.MaxUnpool2d(2)(o(1, 1, 2, 2), o(1, 1, 2, 2, dtype=T.int64), output_size=(50, 50))": 'invalid output_size "(50, 50)" (dim 0 must be',
    "nn.FractionalMaxPool2d(2)": "FractionalMaxPool2d requires specifying either an output size, or a pooling ratio",
    "nn.FractionalMaxPool2d(2, output_ratio=(2, 2))": "output_ratio must be between 0 and 1 (got (2, 2",
    "F.interpolate(o(1, 1, 2, 2))": "either size or scale_factor should be defined",
    "F.interpolate(o(1, 1, 2, 2), size=2, scale_factor=2)": "only one of size or scale_factor should be defined",
    "F.interpolate(o(2), size=2)": "Only 3D, 4D and 5D input Tensors supported (got 1D) for the modes: nearest |",
    "F.interpolate(o(1, 1, 2, 2), size=2, mode='linear')": "Got 4D input, but linear mode needs 3D input",
    "F.interpolate(o(1, 1, 2), size=2, mode='bilinear')": "Got 3D input, but bilinear mode needs 4D input",
    "F.interpolate(o(1, 1, 2, 2), size=2, mode='nearest', align_corners=True)": "align_corners option can only be set with the",
    "F.interpolate(o(1, 1, 2, 2), size=(2, 2, 2))": "Input and output must have the same number of spatial dimensions, but got input with",
    "F.interpolate(o(1, 1, 2, 2), scale_factor=(2., 2., 2.))": "Input and scale_factor must have the same number of spatial dimensions,",
    "F.interpolate(o(1, 1, 2, 2), size=0)": "Input and output sizes should be greater than 0, but got input",
    "F.interpolate(o(1, 1, 2, 2), size=2, mode='nearest', antialias=True)": "Anti-alias option is restricted to bilinear, bicubic",
    "F.grid_sample(o(1, 1, 2, 2), o(1, 2, 2, 2), mode='zz')": "expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: 'zz'",
    "F.grid_sample(o(1, 1, 2, 2), o(1, 2, 2, 2), padding_mode='zz')": "expected padding_mode to be 'zeros', 'border', or 'reflection', but",
    "F.affine_grid(o(1, 2, 3), (1, 1, 2))": "affine_grid only supports 4D and 5D sizes",
    "F.affine_grid(o(1, 2, 2), (1, 1, 2, 2))": "Expected a batch of 2D affine matrices of shape",
    "F.affine_grid(o(1, 2, 3), (1, 1, 0, 2))": "Expected non-zero, positive output size. Got (1, 1, 0, 2",
    "F.pad(o(1, 1, 2), (1, 1), mode='zz')": "Unrecognised padding mode zz",
    "F.pad(o(1, 1, 2), (1, 1), mode='reflect', value=2)": "Padding mode \"reflect\" doesn't take in value argument",
    "F.unfold(o(1, 1, 2, 2), 5)": "calculated shape of the array of sliding blocks as (-2, -2), but its components must be at least one",
    "F.fold(o(1, 4, 4), (3, 3), (3, 3))": "Expected size of input's dimension 1 to be divisible by the product of kernel_size",
    "F.fold(o(1, 4, 3), (3, 3), (2, 2))": "expected size of input's dimension 2 to match the calculated number of sliding blocks",
    "F.dropout(o(2), 2)": "dropout probability has to be between 0 and 1, but got 2",
    "F.dropout3d(o(2), -1)": "dropout probability has to be between 0 and 1, but got -1",
    "F.rrelu(o(2), 2, 1, training=True)": "Lower bound should be less than or equal to the upper bound",
    "F.bilinear(o(2, 3), o(3, 3), o(1, 3, 3))": "input batch dimensions do not match",
    "F.bilinear(o(2, 3), o(2, 4), o(1, 3, 3))": "input2 size does not match weight size: got 4 but expected 3",
    "nn.Bilinear(0, 2, 2)": "in1_features must be > 0, but got (in1_features=0",
    "nn.Unflatten(1, 3)": "unflattened_size must be a tuple of ints, but found type int",
    "F.channel_shuffle(o(1, 3, 2, 2), 2)": "Number of channels must be divisible by groups. Got 3 channels and 2 groups",
    "F.channel_shuffle(o(2), 1)": "channel_shuffle expects input with > 2 dims, but got input with sizes [2]",
    "nn.Embedding(3, 4, padding_idx=5)": "Padding_idx must be within num_embeddings",
    "nn.Embedding(3, 4, _weight=o(2, 2))": "Shape of weight does not match num_embeddings and embedding_dim",
    "nn.Embedding.from_pretrained(o(2))": "Embeddings parameter is expected to be 2-dimensional",
    "nn.EmbeddingBag(3, 4)(T.tensor([1]))": "offsets has to be a 1D Tensor but got None",
    "nn.EmbeddingBag(3, 4)(T.tensor([1]), T.tensor([1]))": "offsets[0] has to be 0",
    "nn.EmbeddingBag(3, 4)(T.tensor([[1]]), T.tensor([0]))": "if input is 2D, then offsets has to be None, as",
    "nn.EmbeddingBag(3, 4)(T.tensor(1), T.tensor([0]))": "input has to be 1D or 2D Tensor",
    "nn.EmbeddingBag(3, 4, mode='zz')(T.tensor([1]), T.tensor([0]))": "mode has to be one of sum, mean or max",
    "nn.EmbeddingBag(3, 4, mode='sum')(T.tensor([1]), T.tensor([0]), o(2))": "must have the same shape as the input",
    "nn.EmbeddingBag(3, 4, mode='max', scale_grad_by_freq=True)(T.tensor([1]), T.tensor([0]), o(1))": "max mode does not support scaling",
    "F.cross_entropy(o(2, 3), o(2))": "expected target dtype to be Long or Byte",
    "F.cross_entropy(o(2, 3), T.tensor([0, 1]), reduction='zz')": "zz is not a valid value for reduction",
    "F.cross_entropy(o(2, 3), T.tensor([0, 1]), label_smoothing=2.)": "label_smoothing must be between 0.0 and 1.0. Got: 2",
    "F.smooth_l1_loss(o(2), o(2), beta=-1)": "smooth_l1_loss does not support negative values for beta",
    "F.huber_loss(o(2), o(2), delta=0)": "huber_loss does not support non-positive values for delta",
    "F.binary_cross_entropy(o(2), o(3))": ". Please ensure they have the same size",
    "F.binary_cross_entropy_with_logits(o(2), o(3))": "must be the same as input size",
    "F.gaussian_nll_loss(o(2), o(2), -o(2))": "var has negative entry/entries",
    "F.gaussian_nll_loss(o(2, 3), o(2, 3), o(3, 3))": "var is of incorrect size",
    "F.triplet_margin_loss(o(2, 2), o(2, 2), o(2, 2), margin=-1)": "margin must be greater than 0, got -1",
    "nn.TripletMarginLoss(margin=-1)": "TripletMarginLoss: expected margin to be greater than 0, got -1 instead",
    "nn.MultiMarginLoss(p=3)": "only p == 1 and p == 2 supported",
    "nn.MultiMarginLoss(weight=o(2, 2))": "MultiMarginLoss: expected weight to be None or 1D tensor, got 2D instead",
    "F.multi_margin_loss(o(2, 3), T.tensor([0, 1]), weight=o(2))": "inconsistent weight size, expected 3 but got [2]",
    "F.ctc_loss(o(5, 1, 3).log_softmax(2), T.tensor([[1, 2]]), T.tensor([5, 5]), T.tensor([2]))": "input_lengths must be of size",
    "F.ctc_loss(o(5, 1, 3).log_softmax(2), T.tensor([[1, 2]]), T.tensor([5.]), T.tensor([2]))": "input_lengths must be integral",
    "nn.AdaptiveLogSoftmaxWithLoss(4, 5, [6])": "cutoffs should be a sequence of unique, positive integers sorted in an increasing order,",
    "nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(o(2, 4), T.tensor([1, 5]))": "Target values should be in [0, 4], but values in range [1, 5]",
    "nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(o(2, 4), T.tensor([1]))": "Input and target should have the same size in the batch dimension",
    "nn.Module()(1)": 'Module [Module] is missing the required "forward" function',
    "nn.Sequential(nn.Linear(1, 1))[5]": "index 5 is out of range",
    "nn.Sequential(1)": "int is not a Module subclass",
    "nn.Sequential(nn.Linear(1, 1)).insert(5, nn.Linear(1, 1))": "Index out of range: 5",
    "nn.Sequential(nn.Linear(1, 1))+3": "add operator supports only objects of Sequential class, but <class 'int'> is given",
    "nn.Sequential(nn.Linear(1, 1))*1.5": "unsupported operand type(s) for *",
    "nn.ModuleList([nn.Linear(1, 1)]).extend(3)": "ModuleList.extend should be called with an iterable, but got int",
    "nn.ModuleList([nn.Linear(1, 1)])(o(1, 1))": 'Module [ModuleList] is missing the required "forward" function',
    "nn.ModuleDict(3)": "ModuleDict.update should be called with an iterable of key/value pairs, but got int",
    "nn.ModuleDict([('a', nn.Linear(1, 1), 3)])": "ModuleDict update sequence element #0 has length 3; 2 is required",
    "nn.ModuleDict([3])": "ModuleDict update sequence element #0 should be Iterable",
    "nn.ModuleDict({1:nn.Linear(1, 1)})": "module name should be a string. Got int",
    "nn.ModuleDict({'a.b':nn.Linear(1, 1)})": "'module name can\\'t contain \".\"",
    "nn.ModuleDict({'keys':nn.Linear(1, 1)})": "attribute 'keys' already exists",
    "nn.ModuleDict({'':nn.Linear(1, 1)})": "'module name can\\'t be empty string \"\"'",
    "nn.ModuleDict({'a':nn.Linear(1, 1)})(o(1, 1))": 'Module [ModuleDict] is missing the required "forward" function',
    "nn.ParameterList([o(1)])(1)": "ParameterList should not be called.",
    "nn.ParameterList(3)": "ParameterList.extend should be called with an iterable, but got int",
    "nn.ParameterDict(3)": "Dict.update should be called with an iterable of key/value pairs, but got int",
    "nn.ParameterDict({1:o(1)})": "Index given to ParameterDict cannot be used as a key as it is not a string (type is 'int'",
    "nn.ParameterDict({'a':o(1)})(1)": "ParameterDict should not be called.",
    "nn.Linear(1, 1).register_parameter('a.b', None)": "'parameter name can\\'t contain \".\"",
    "nn.Linear(1, 1).register_parameter('forward', p())": "attribute 'forward' already exists",
    "nn.Linear(1, 1).register_buffer('weight', o(1))": "attribute 'weight' already exists",
    "nn.Module(foo=1)": "Module.__init__() got an unexpected keyword argument 'foo'",
    "nn.Linear(1, 1).get_submodule('x')": "Linear has no attribute `x`",
    "nn.Linear(1, 1).get_submodule('weight')": "`weight` is not an nn.Module",
    "nn.Linear(1, 1).get_buffer('weight')": "`weight` is not a buffer",
    "nn.BatchNorm1d(1).get_parameter('running_mean')": "`running_mean` is not an nn.Parameter",
    "nn.Linear(1, 1).set_submodule('', nn.Linear(1, 1))": "Cannot set the submodule without a target name",
    "nn.Linear(1, 1).train('a')": "training mode is expected to be boolean",
    "nn.Linear(1, 1).load_state_dict(3)": "Expected state_dict to be dict-like, got <class 'int'>",
    "nn.LazyConv2d(2, 3)(o(2))": "Expected 3D (unbatched) or 4D (batched) input to LazyConv2d, but got input of size",
    "nn.utils.remove_weight_norm(nn.Linear(1, 1))": "weight_norm of 'weight' not found in Linear",
    "nn.utils.spectral_norm(nn.Linear(1, 1), n_power_iterations=0)": "Expected n_power_iterations to be positive, but got",
    "nn.utils.remove_spectral_norm(nn.Linear(1, 1))": "spectral_norm of 'weight' not found in Linear",
    "nn.utils.parametrizations.orthogonal(nn.Linear(1, 1), orthogonal_map='zz')": 'orthogonal_map has to be one of "matrix_exp", "cayley",',
    "nn.utils.parametrizations.orthogonal(nn.BatchNorm1d(1))": "Expected a matrix or batch of matrices. Got a tensor of 1 dimensions",
    "nn.utils.parametrizations.weight_norm(nn.Linear(1, 1), 'foo')": "does not have a parameter, a buffer, or a parametrized element with",
    "nn.utils.prune.l1_unstructured(nn.Linear(2, 2), 'weight', amount=5.5)": "amount=5.5 should either be a float in the range [0, 1] or a",
    "nn.utils.prune.l1_unstructured(nn.Linear(2, 2), 'weight', amount=-1)": "amount=-1 should either be a float in the range [0, 1] or a",
    "nn.utils.prune.remove(nn.Linear(2, 2), 'weight')": "has to be pruned before pruning can be removed",
    "nn.utils.prune.l1_unstructured(nn.Linear(2, 2), 'weight', amount=50)": "amount=50 should be smaller than the number of parameters to",
    "nn.utils.parametrize.remove_parametrizations(nn.Linear(2, 2), 'weight')": "does not have a parametrization on weight",
    "T.func.functional_call(nn.Linear(1, 1), {'foo':o(1)}, (o(1, 1), ), strict=True)": "Error(s) in reparametrizing for",
    "nn.utils.fuse_conv_bn_eval(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))": "Fusion only for eval!",
    "nn.init.xavier_uniform_(o(2))": "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions",
    "nn.init.kaiming_normal_(o(2, 2), mode='zz')": "Mode zz not supported, please use one of ['fan_in', 'fan_out']",
    "nn.init.kaiming_normal_(o(2, 2), nonlinearity='zz')": "Unsupported nonlinearity zz",
    "nn.init.orthogonal_(o(2))": "Only tensors with 2 or more dimensions are supported",
    "nn.init.sparse_(o(2), 0.1)": "Only tensors with 2 dimensions are supported",
    "nn.init.dirac_(o(2))": "Only tensors with 3, 4, or 5 dimensions are supported",
    "nn.init.dirac_(o(3, 3, 3), groups=2)": "dim 0 must be divisible by groups",
    "nn.init.calculate_gain('leaky_relu', 'a')": "negative_slope a not a valid number",
    "optim.SGD([o(1)*p()], lr=0.1)": "can't optimize a non-leaf Tensor",
    "optim.SGD([p()], lr=-1)": "Invalid learning rate: -1",
    "optim.SGD(p(), lr=0.1)": "params argument given to the optimizer should be an iterable of Tensors or dicts, but got",
    "optim.SGD([3], lr=0.1)": "optimizer can only optimize Tensors, but one of the params is int",
    "optim.SGD([{'params':{p()}}], lr=0.1)": "optimizer parameters need to be organized in ordered collections, but",
    "optim.SGD([p(), {'params':[]}], lr=0.1)": "optimizer can only optimize Tensors, but one of the params is dict",
    "optim.SGD([('a', p()), p()], lr=0.1)": "all optimizer params should be with/without names",
    "sgd(momentum=-1)": "Invalid momentum value: -1",
    "sgd(weight_decay=-1)": "Invalid weight_decay value: -1",
    "sgd(nesterov=True)": "Nesterov momentum requires a momentum and zero dampening",
    "sgd(differentiable=True, fused=True)": "`fused` does not support `differentiable`",
    "sgd(foreach=True, fused=True)": "`fused` and `foreach` cannot be `True` together",
    "optim.Adam([p()], betas=(1, 0.9))": "Invalid beta parameter at index 0: 1",
    "optim.Adam([p()], eps=-1)": "Invalid epsilon value: -1",
    "optim.NAdam([p()], momentum_decay=-1)": "Invalid momentum_decay value: -1",
    "optim.Adagrad([p()], lr_decay=-1)": "Invalid lr_decay value: -1",
    "optim.Adadelta([p()], rho=2)": "Invalid rho value: 2",
    "optim.RMSprop([p()], alpha=-1)": "Invalid alpha value: -1",
    "optim.Rprop([p()], etas=(2, 1))": "Invalid eta values: 2, 1",
    "optim.Muon([p()])": "Muon only supports 2D parameters whereas we found a parameter with size",
    "optim.LBFGS([p()]).step()": "LBFGS.step() missing 1 required positional argument: 'closure'",
    "sgd().add_param_group(3)": "param_group must be a dict, but got <class 'int'>",
    "S.StepLR(3, 1)": "int is not an Optimizer",
    "S.StepLR(sgd(momentum=0.9), 1, last_epoch=3)": "param 'initial_lr' is not specified in param_groups[0] when resuming scheduler with",
    "S.LambdaLR(sgd(momentum=0.9), [lambda e:1, lambda e:1])": "Expected 1 lr_lambdas",
    "S.ConstantLR(sgd(momentum=0.9), factor=2)": "Constant multiplicative factor expected to be between 0 and 1",
    "S.LinearLR(sgd(momentum=0.9), start_factor=2)": "Starting multiplicative factor expected to be greater than 0 and less or equal to 1",
    "S.LinearLR(sgd(momentum=0.9), end_factor=2)": "Ending multiplicative factor expected to be between 0 and 1",
    "S.CyclicLR(sgd(momentum=0.9), 0.1, 0.2, mode='zz')": "mode is invalid and scale_fn is None",
    "S.CyclicLR(sgd(momentum=0.9), [0.1, 0.1], 0.2)": "base_lr must have the same length as optimizer.param_groups",
    "S.OneCycleLR(sgd(momentum=0.9), 0.1)": "You must define either total_steps OR (epochs AND steps_per_epoch",
    "S.OneCycleLR(sgd(momentum=0.9), 0.1, total_steps=-1)": "Expected positive integer total_steps, but got -1",
    "S.OneCycleLR(sgd(momentum=0.9), 0.1, total_steps=1.5)": "Expected positive integer total_steps, but got 1.5",
    "S.OneCycleLR(sgd(momentum=0.9), 0.1, total_steps=3, pct_start=2)": "Expected float between 0 and 1 pct_start, but got 2",
    "S.OneCycleLR(sgd(momentum=0.9), 0.1, total_steps=3, anneal_strategy='zz')": "anneal_strategy must be one of 'cos' or 'linear',",
    "(lambda s:[s.step() for _ in range(5)])(S.OneCycleLR(sgd(momentum=0.9), 0.1, total_steps=3))": "Tried to step 4 times. The specified",
    "S.CosineAnnealingWarmRestarts(sgd(momentum=0.9), 0)": "Expected positive integer T_0, but got 0",
    "S.CosineAnnealingWarmRestarts(sgd(momentum=0.9), 1, T_mult=0)": "Expected integer T_mult >= 1, but got 0",
    "S.CosineAnnealingWarmRestarts(sgd(momentum=0.9), 1).step(-1)": "Expected non-negative epoch, but got -1",
    "S.ReduceLROnPlateau(sgd(momentum=0.9), factor=1.)": "Factor should be < 1.0",
    "S.ReduceLROnPlateau(sgd(momentum=0.9), mode='zz')": "mode zz is unknown!",
    "S.ReduceLROnPlateau(sgd(momentum=0.9), threshold_mode='zz')": "threshold mode zz is unknown!",
    "S.SequentialLR(sgd(momentum=0.9), [], [])": "SequentialLR expects at least one scheduler, but got no scheduler",
    "(lambda a: S.SequentialLR(a, [S.StepLR(a, 1), S.StepLR(a, 1)], []))(sgd())": "expects number of schedulers provided to be one more",
    "(lambda a: S.SequentialLR(a, [S.StepLR(a, 1), S.StepLR(sgd(), 1)], [1]))(sgd())": "SequentialLR expects all schedulers to belong to",
    "S.ChainedScheduler([])": "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler",
    "S.ChainedScheduler([S.StepLR(sgd(), 1), S.StepLR(sgd(), 1)])": "ChainedScheduler expects all schedulers to belong to the same",
    "S.ChainedScheduler([S.ReduceLROnPlateau(sgd())], 3)": "ChainedScheduler does not support `ReduceLROnPlateau` scheduler",
    "optim.swa_utils.get_ema_avg_fn(2)": "Invalid decay value 2 provided",
    "data.DataLoader([1], batch_size=0)": "batch_size should be a positive integer value, but got batch_size=0",
    "data.DataLoader([1], batch_size=-1)": "batch_size should be a positive integer value, but got batch_size=-1",
    "data.DataLoader([1], batch_size='a')": "batch_size should be a positive integer value, but got batch_size=a",
    "data.DataLoader([1], num_workers=-1)": "; use num_workers=0 to disable multiprocessing",
    "data.DataLoader([1], timeout=-1)": "timeout option should be non-negative",
    "data.DataLoader([1], prefetch_factor=2)": "prefetch_factor option could only be specified in multiprocessing",
    "data.DataLoader([1], prefetch_factor=-1, num_workers=1)": "prefetch_factor option should be non-negative",
    "data.DataLoader([1], persistent_workers=True)": "persistent_workers option needs num_workers > 0",
    "data.DataLoader([1], sampler=[0], shuffle=True)": "sampler option is mutually exclusive with shuffle",
    "data.DataLoader([1], batch_size=None, drop_last=True)": "batch_size=None option disables auto-batching and is mutually exclusive with",
    "data.DataLoader(Stream(), shuffle=True)": "DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle=True",
    "data.DataLoader(Stream(), sampler=[0])": "DataLoader with IterableDataset: expected unspecified sampler option, but got sampler=[0]",
    "data.DataLoader(Stream(), batch_sampler=[[0]])": "DataLoader with IterableDataset: expected unspecified batch_sampler option, but got",
    "data.DataLoader([], shuffle=True)": "num_samples should be a positive integer value, but got num_samples=0",
    "list(data.DataLoader([o(2), o(3)], batch_size=2))": "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
    "list(data.DataLoader([None, None], batch_size=2))": "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists;",
    "list(data.DataLoader([(1, 2), (1,)], batch_size=2))": "each element in list of batch should be of equal size",
    "setattr(data.DataLoader([1]), 'batch_size', 3)": "batch_size attribute should not be set after DataLoader",
    "setattr(data.DataLoader([1]), 'dataset', 3)": "dataset attribute should not be set after DataLoader is",
    "setattr(data.DataLoader([1]), 'sampler', 3)": "sampler attribute should not be set after DataLoader is",
    "data.RandomSampler([1], num_samples='a')": "num_samples should be a positive integer value, but got num_samples=a",
    "data.RandomSampler([1], replacement=3)": "replacement should be a boolean value, but got replacement=3",
    "data.WeightedRandomSampler([[1.]], 1)": "weights should be a 1d sequence but given weights have shape (1, 1",
    "data.BatchSampler(data.SequentialSampler([1]), 1, 3)": "drop_last should be a boolean value, but got drop_last=3",
    "data.DistributedSampler([1])": "Default process group has not been initialized",
    "data.DistributedSampler([1], num_replicas=2, rank=2)": "Invalid rank 2, rank should be in the interval [0, 1]",
    "data.TensorDataset(o(2), o(3))": "Size mismatch between tensors",
    "data.StackDataset([1], [1, 2])": "Size mismatch between datasets",
    "data.StackDataset()": "At least one dataset should be passed",
    "data.StackDataset([1], a=[1])": "but both types are given",
    "data.ConcatDataset([])": "datasets should not be an empty iterable",
    "data.ConcatDataset([Stream()])": "ConcatDataset does not support IterableDataset",
    "data.ConcatDataset([[1]])[-5]": "absolute value of index should not exceed dataset length",
    "data.ChainDataset([[1]]) and list(data.ChainDataset([[1]]))": "ChainDataset only supports IterableDataset",
    "data.random_split([1, 2], [0.5, 0.6])": "Sum of input lengths does not equal the length of the input dataset",
    "data.random_split([1, 2], [2., -1.])": "Fraction at index 0 is not between 0 and 1",
    "T.utils.checkpoint.checkpoint(T.sin, o(1), use_reentrant=True, context_fn=lambda: (1, 2))": "Passing `context_fn` or `debug` is only supported when",
}


def function(T, **methods):
    methods.setdefault("forward", lambda ctx, x: x.clone())
    return type("Mine", (T.autograd.Function,), {name: staticmethod(method) for name, method in methods.items()})


def leaf(T):
    return T.ones(2, dtype=T.float64, requires_grad=True)


def same(ctx, g):
    return g


def twice_that(ctx, g):
    return g * 2


def and_more(ctx, g):
    return g + 1e-2


def sparse(ctx, g):
    return g.to_sparse()


def drifting(ctx, g, calls=[0]):  # noqa: B006
    calls[0] += 1
    return g * (1 + 1e-9 * calls[0])


def dirty(ctx, x):
    ctx.mark_dirty(x.add_(1))
    return x.clone()


def unused_and_made(T):
    x = T.ones(1, requires_grad=True)
    T.autograd.grad(x * 2, x, allow_unused=False, materialize_grads=True)


def twice(T):
    y = T.ones(2, requires_grad=True).square().sum()
    y.backward()
    y.backward()


def overwritten(T):
    y = T.ones(2, requires_grad=True).exp()
    y.add_(1)
    y.sum().backward()


def names_of(T):
    import copy

    def p():
        return T.nn.Parameter(T.ones(1))

    def sgd(**options):
        return T.optim.SGD([p()], **{"lr": 0.1, **options})

    S, data = T.optim.lr_scheduler, T.utils.data
    Stream = type("Stream", (data.IterableDataset,), {"__iter__": lambda self: iter([1])})
    return {"copy": copy, "nn": T.nn, "F": T.nn.functional, "o": T.ones, "optim": T.optim} | locals()


def text_of(statement, T):
    importlib.import_module(T.__name__ + ".nn.utils.prune")
    with pytest.raises((RuntimeError, IndexError, TypeError, ValueError, AssertionError, KeyError, AttributeError)) as caught:
        eval(statement, {**globals(), **names_of(T)})
    return str(caught.value)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(("statement", "phrase"), PHRASES.items(), ids=list(PHRASES))
def test_phrase(statement, phrase):
    for library in (torch, flambeau):
        assert phrase in text_of(statement, library)
