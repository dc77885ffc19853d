#!/usr/bin/env python3
"""Operators that reach their operands in unusual ways (pointers in tables, plans and descriptors of
libraries, workspaces, indices), each after everything it uses has had to leave. Prints a digest for
each, to be compared with a run that has room. See program.py."""

from program import Others, digest, main
import torch
from torch import nn
from torch.nn import functional


def inputs():
    numbers = torch.Generator().manual_seed(3)

    def normal(*shape, dtype=torch.float32):
        return torch.randn(*shape, generator=numbers).to("cuda", dtype)

    def whole(high, *shape):
        return torch.randint(high, shape, generator=numbers).cuda()

    return {"a": normal(1024, 1024), "b": normal(1024, 1024), "batch": normal(16, 256, 256),
            "half": normal(512, 512, dtype=torch.bfloat16), "v": normal(1 << 20),
            "image": normal(8, 16, 64, 64), "volume": normal(2, 4, 16, 16, 16),
            "sequence": normal(64, 16, 256), "index": whole(1024, 4096), "table": normal(5000, 64),
            "query": normal(4, 8, 256, 64, dtype=torch.bfloat16), "bags": whole(5000, 2000),
            "labels": whole(1024, 1024, 1024), "bytes": whole(255, 1 << 20).to(torch.uint8),
            "double": normal(8, 64, 64, dtype=torch.float64)}


def recurrent(kind, **options):
    torch.manual_seed(4)
    return kind(256, 128, num_layers=2, bidirectional=True, **options).cuda()


def with_gradients(function, *tensors):
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    result = function(*leaves)
    result = result[0] if isinstance(result, tuple) else result
    result.float().square().mean().backward()
    return [result, *[leaf.grad for leaf in leaves]]


def sparse(x):
    return torch.where(x.abs() > 2, x, 0.0)


def operators(x, lstm, gru, attention, bag, convolution):
    """By name. What is made before (modules, plans) is used a second time further down."""
    def spd():
        return x["double"] @ x["double"].mT + 64 * torch.eye(64, device="cuda").double()
    symmetric = x["batch"] + x["batch"].mT
    offsets = torch.arange(0, 2000, 50, device="cuda")
    return {
        "matmul": lambda: x["a"] @ x["b"],
        "baddbmm": lambda: torch.baddbmm(x["batch"], x["batch"], x["batch"]),
        "einsum": lambda: torch.einsum("bij,bkj->bik", x["batch"], x["batch"]),
        "addmm gelu": lambda: functional.gelu(functional.linear(x["half"], x["half"])),
        "fft": lambda: torch.fft.fft2(x["image"]),
        "rfft": lambda: torch.fft.irfft(torch.fft.rfft(x["v"])),
        "stft": lambda: torch.stft(x["v"][:65536], 512, return_complex=True,
                                   window=torch.hann_window(512, device="cuda")),
        "lu": lambda: torch.linalg.lu_factor(x["batch"]),
        "solve": lambda: torch.linalg.solve(spd(), x["double"]),
        "cholesky": lambda: torch.linalg.cholesky(spd()),
        "inverse": lambda: torch.linalg.inv(spd()),
        "qr": lambda: torch.linalg.qr(x["double"]),
        "eigh": lambda: torch.linalg.eigvalsh(symmetric),
        "svd": lambda: torch.linalg.svdvals(x["batch"]),
        "triangular": lambda: torch.linalg.solve_triangular(torch.tril(spd()), x["double"],
                                                            upper=False),
        "sort": lambda: torch.sort(x["v"]),
        "sort rows": lambda: torch.sort(x["a"], dim=1, stable=True),
        "topk": lambda: torch.topk(x["a"], 17),
        "unique": lambda: torch.unique(x["index"], return_inverse=True, return_counts=True),
        "nonzero": lambda: torch.nonzero(x["bytes"] > 250),
        "masked_select": lambda: torch.masked_select(x["v"], x["bytes"] > 128),
        "cumsum": lambda: torch.cumsum(x["a"], dim=1),
        "histogram": lambda: torch.bincount(x["index"], minlength=1024),
        "searchsorted": lambda: torch.searchsorted(torch.sort(x["v"])[0], x["a"]),
        "index_select": lambda: x["a"][x["index"]],
        "index_put": lambda: x["a"].clone().index_put_((x["index"][:512],), x["b"][:512]),
        "scatter_add": lambda: torch.zeros(1024, device="cuda", dtype=torch.int64).scatter_add_(
            0, x["index"], x["index"]),
        "gather": lambda: torch.gather(x["a"], 1, x["labels"]),
        "cat": lambda: torch.cat([x["a"], x["b"], *x["batch"].reshape(-1, 1024).split(64)]),
        "stack of many": lambda: torch.stack([row for row in x["a"][:300]]),
        "foreach": lambda: torch._foreach_mul([*x["a"][:200].split(1)], [*x["b"][:200].split(1)]),
        "norms": lambda: torch._foreach_norm([*x["a"].split(7)]),
        "conv2d": lambda: with_gradients(convolution, x["image"]),
        "conv3d": lambda: functional.conv3d(x["volume"], x["volume"][:, :, :3, :3, :3]),
        "conv transpose": lambda: functional.conv_transpose2d(
            x["image"], x["image"][:1, :, :3, :3].transpose(0, 1)),
        "batch norm": lambda: functional.batch_norm(x["image"], None, None, training=True),
        "group norm": lambda: functional.group_norm(x["image"], 4),
        "pooling": lambda: with_gradients(lambda image: functional.avg_pool2d(image, 3), x["image"]),
        "grid_sample": lambda: functional.grid_sample(
            x["image"], torch.tanh(x["v"][:8 * 32 * 32 * 2].reshape(8, 32, 32, 2)),
            align_corners=False),
        "interpolate": lambda: functional.interpolate(x["image"], scale_factor=1.7),
        "lstm": lambda: lstm(x["sequence"]),
        "lstm gradients": lambda: with_gradients(lstm, x["sequence"]),
        "gru": lambda: gru(x["sequence"]),
        "packed lstm": lambda: lstm(nn.utils.rnn.pack_padded_sequence(
            x["sequence"], torch.arange(64, 48, -1)))[1],
        "embedding bag": lambda: bag(x["bags"], offsets),
        "embedding": lambda: functional.embedding(x["bags"], x["table"]),
        "attention": lambda: functional.scaled_dot_product_attention(
            x["query"], x["query"], x["query"], is_causal=True),
        "multihead": lambda: attention(x["sequence"], x["sequence"], x["sequence"])[0],
        "cross entropy": lambda: with_gradients(
            lambda a: functional.cross_entropy(a, x["labels"][0]), x["a"]),
        "sparse coo": lambda: torch.sparse.mm(sparse(x["a"]).to_sparse(), x["b"]),
        "sparse csr": lambda: sparse(x["a"]).to_sparse_csr() @ x["b"],
        "sparse add": lambda: sparse(x["a"]).to_sparse() + sparse(x["b"]).to_sparse(),
        "dropout": lambda: (torch.manual_seed(5), functional.dropout(x["a"], 0.3))[1],
        "multinomial": lambda: (torch.manual_seed(5), torch.multinomial(
            x["a"].abs(), 5, replacement=True))[1],
        "randperm": lambda: (torch.manual_seed(5), torch.randperm(100000, device="cuda"))[1],
        "where": lambda: torch.where(x["a"] > 0, x["a"], x["b"]),
        "complex": lambda: torch.view_as_real(torch.polar(x["a"].abs(), x["b"])),
        "quantile": lambda: torch.quantile(x["v"][:100000], 0.3),
        "cdist": lambda: torch.cdist(x["a"][:256], x["b"][:256]),
        "ctc": lambda: functional.ctc_loss(
            functional.log_softmax(x["sequence"], 2), x["labels"][:16, :20] % 255 + 1,
            torch.full((16,), 64), torch.full((16,), 20)),
        "nested": lambda: torch.nested.to_padded_tensor(torch.nested.nested_tensor(
            [x["a"][:5], x["a"][:9], x["a"][:2]]), 0.0),
        "scaled mm": lambda: torch._scaled_mm(
            x["a"][:256].to(torch.float8_e4m3fn), x["b"][:256].to(torch.float8_e4m3fn).t(),
            scale_a=torch.ones((), device="cuda"), scale_b=torch.ones((), device="cuda"),
            out_dtype=torch.bfloat16),
        "int8 mm": lambda: torch._int_mm(x["bytes"][:1 << 18].reshape(512, 512).to(torch.int8),
                                         x["bytes"][:1 << 18].reshape(512, 512).to(torch.int8)),
        "grouped mm": lambda: torch._grouped_mm(
            x["half"], x["half"].reshape(4, 128, 512).transpose(1, 2).contiguous()
            .reshape(4, 512, 128), offs=torch.tensor([128, 256, 384, 512], device="cuda",
                                                     dtype=torch.int32)),
        "copies": lambda: (x["a"].cpu().cuda(), x["a"].t().contiguous(), x["a"][::3, ::5].cuda()),
        "vmap": lambda: torch.func.vmap(torch.func.grad(lambda row: (row ** 3).sum()))(x["a"]),
        "jacobian": lambda: torch.func.jacrev(torch.sin)(x["v"][:512]),
    }


def zoo(mib="768"):
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    x = inputs()
    torch.manual_seed(4)
    lstm, gru = recurrent(nn.LSTM), recurrent(nn.GRU)
    attention = nn.MultiheadAttention(256, 8).cuda()
    bag = nn.EmbeddingBag(5000, 64, mode="sum").cuda()
    convolution = nn.Conv2d(16, 32, 3, padding=1).cuda()
    others = Others(int(mib))
    digests = {}
    for _ in range(2):  # the second time plans and workspaces are there, and elsewhere
        for name, run in operators(x, lstm, gru, attention, bag, convolution).items():
            others.touch()
            try:
                result = run()
                others.touch()
                found = digest(result)
            except (RuntimeError, AttributeError, IndexError, TypeError, ValueError) as error:
                if "CUDA error" in str(error) and "device-side" not in str(error):
                    raise
                found = f"raised {type(error).__name__}: {str(error).splitlines()[0][:100]}"
            digests.setdefault(name, []).append(found)
    return {"digests": digests, "wrong": others.wrong()}


if __name__ == "__main__":
    main(globals())
