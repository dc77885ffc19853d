"""torch.autocast("cuda") for tensors on `meta`.

PyTorch casts in kernels of the dispatch key AutocastCUDA, which a tensor on `meta` does not carry and
which leave all but cuda tensors as they are. So the key is included for every call of this thread, and
its kernels are replaced by these, for exactly the operators that PyTorch has kernels for there. Which
operator is cast how is PyTorch's autocast_mode.h; torch.autocast switches the key on and off itself.
"""

import weakref

import torch

from .device import on_device

_KEY = "AutocastCUDA"
_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded
_exclude = torch._C._dispatch_tls_set_dispatch_key_excluded

_LOWER = """_convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d
conv_transpose2d.input conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv
linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell
_thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention
scaled_dot_product_attention""".split()
_FLOAT32 = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan
pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm
frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss
nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d
_upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa
upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa norm.Scalar norm.ScalarOpt_dim""".split()
# In float32 by their argument dtype, where none is given.
_FLOAT32_RESULT = """prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm
linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList""".split()
_WIDEST = """addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot
scatter_add""".split()

_cache = {}  # of parameters cast in this outermost autocast, by their identity: (weak, cast)


def _eligible(value):
    return isinstance(value, torch.Tensor) and on_device(value) and (
        value.is_floating_point() and value.dtype != torch.float64)


def _cast_one(tensor, dtype):
    if tensor.dtype == dtype:
        return tensor
    keeps = (tensor.dtype == torch.float32 and tensor.is_leaf and tensor.requires_grad
             and dtype != torch.float32 and torch.is_autocast_cache_enabled())
    if not keeps:
        return tensor.to(dtype)
    known = _cache.get(id(tensor))
    if known is None or known[0]() is not tensor:
        known = _cache[id(tensor)] = weakref.ref(tensor), tensor.to(dtype)
    return known[1]


def _cast(value, dtype):
    if isinstance(value, torch.Tensor):
        return _cast_one(value, dtype) if _eligible(value) else value
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype) for item in value)
    return value


def _cast_all(args, kwargs, dtype):
    """The last one first, as compiled code of PyTorch does it: a bias, a weight, then the input."""
    named = {name: _cast(value, dtype) for name, value in reversed(kwargs.items())}
    return [_cast(value, dtype) for value in reversed(args)][::-1], named


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _lower(call, args, kwargs):
    return call(*_cast_all(args, kwargs, torch.get_autocast_dtype("cuda")))


def _float32(call, args, kwargs):
    return call(*_cast_all(args, kwargs, torch.float32))


def _float32_result(call, args, kwargs):
    given = list(args)
    if any(_eligible(tensor) for tensor in _tensors(args)):
        place = call.places.get("dtype")
        if place is not None and place < len(given):
            given[place] = given[place] or torch.float32
        elif kwargs.get("dtype") is None:
            kwargs = {**kwargs, "dtype": torch.float32}
    return call(given, kwargs)


def _widest(call, args, kwargs):
    dtypes = {tensor.dtype for tensor in _tensors(args) if _eligible(tensor)}
    dtype = torch.float32 if torch.float32 in dtypes else torch.get_autocast_dtype("cuda")
    return call(*_cast_all(args, kwargs, dtype))


def _kernel(operator, cast):
    def call(args, kwargs):
        return operator(*args, **kwargs)

    call.places = {argument.name: place for place, argument in enumerate(operator._schema.arguments)}

    def kernel(*args, **kwargs):
        before = _excluded(_KEY)
        _exclude(_KEY, True)
        try:
            return cast(call, args, kwargs)
        finally:
            _exclude(_KEY, before)

    return kernel


def start(library):
    """`library` keeps the kernels; on the thread that will run the script."""
    for names, cast in ((_LOWER, _lower), (_FLOAT32, _float32), (_FLOAT32_RESULT, _float32_result),
                        (_WIDEST, _widest)):
        for name in names:
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            if operator is not None and torch._C._dispatch_has_kernel_for_dispatch_key(
                    operator.name(), _KEY):
                library.impl(name, _kernel(operator, cast), _KEY, allow_override=True)
    torch._C._dispatch_tls_set_dispatch_key_included(_KEY, True)
    clear = torch.clear_autocast_cache

    def clear_autocast_cache():
        _cache.clear()
        clear()

    torch.clear_autocast_cache = clear_autocast_cache
