"""What the recorder asks of each operator, found out once from its schema and PyTorch's dispatcher."""

import torch

from . import kernels

# In place, and yet more than a change of contents: these run.
_SHAPED = {"resize_", "resize_as_", "set_", "squeeze_", "unsqueeze_", "t_", "transpose_", "as_strided_",
           "swapdims_", "swapaxes_", "sparse_resize_", "_coalesced_", "detach_", "resize"}
# Results of these share memory or have none of it: nothing is launched.
_SILENT = {"sparse_coo_tensor", "empty", "empty_like", "empty_strided", "new_empty",
           "new_empty_strided", "empty_permuted",
           "_sparse_coo_tensor_with_dims_and_tensors", "_sparse_coo_tensor_unsafe", "_coalesced_",
           "sparse_resize_", "_indices", "_values", "is_coalesced", "is_pinned", "lift_fresh",
           "_reshape_alias", "_unsafe_view", "set_", "resize_", "resize_as_", "sym_size", "dim",
           "_sparse_coo_tensor_with_dims", "record_stream", "is_same_size", "sparse_dim", "dense_dim"}
# Composites that are one kernel of their own on cuda.
_WHOLE = {"_foreach", "_fused", "embedding_bag", "_amp_foreach", "native_dropout", "cudnn_batch_norm",
          "_cudnn_rnn", "_index_put", "native_group_norm", "convolution", "_scaled_dot", "slice_scatter",
          "cat"}


class OperatorFacts:
    def __init__(self, func):
        schema = func._schema
        self.name = schema.name
        self.short = schema.name.partition("::")[2]
        self.writes = [place for place, argument in enumerate(schema.arguments)
                       if argument.alias_info is not None and argument.alias_info.is_write]
        shared = [value.alias_info for value in schema.returns]
        self.view = bool(shared) and not self.writes and all(
            alias is not None and not alias.is_write for alias in shared)
        self.in_place = (self.writes == [0] and len(shared) <= 1
                         and all(alias is not None for alias in shared)
                         and self.short not in _SHAPED)
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        # A view where that can be had, else a copy, as of reshape: PyTorch takes it apart.
        self.perhaps_view = self.view and has(func.name(), "CompositeImplicitAutograd")
        self.composite = (has(func.name(), "CompositeExplicitAutograd") and not self.view
                          and not has(func.name(), "CPU")
                          and not self.short.startswith(tuple(_WHOLE)) and self.short not in _SILENT)
        self.silent = self.short in _SILENT
        self.kernels = kernels.kernels_for(self.name) or kernels.elementwise
