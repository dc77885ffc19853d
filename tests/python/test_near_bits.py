"""libspillway_near against PyTorch's own optimizers on the CPU, bit for bit over 100 steps.

SPILLWAY_NEAR_ROUNDS (1): how often the large tensors are repeated, with other numbers. One round
together is a thousand million updates of an element.
"""

import os
import threading

import pytest

torch = pytest.importorskip("torch")
native = pytest.importorskip("spillway.near.native")

from near_steps import Ours, Pair, differing, numbers  # noqa: E402

STEPS = 100
# Around the borders of vectors and of blocks.
SMALL = (0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000)
LARGE = 1_048_581
ROUNDS = int(os.environ.get("SPILLWAY_NEAR_ROUNDS", 1))
FUSED, LOOP = native.FUSED_CPU, native.LOOP_CPU
HALF = torch.bfloat16

ADAM = [
    {}, {"weight_decay": 0}, {"weight_decay": 0.1, "eps": 0.01}, {"amsgrad": True},
    {"maximize": True}, {"betas": (0.3, 0.9)}, {"betas": (0.5, 0.99)},
    {"weight_decay": 0.1, "amsgrad": True, "maximize": True, "betas": (0.2, 0.9)},
]
OTHERS = {
    "Adam": ADAM, "AdamW": ADAM,
    "SGD": [{}, {"weight_decay": 0.1, "maximize": True}, {"momentum": 0.9},
            {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.123},
            {"momentum": 0.9, "nesterov": True, "weight_decay": 0.123, "maximize": True}],
    "Adagrad": [{}, {"weight_decay": 0.123, "lr_decay": 0.01}, {"eps": 0.01, "maximize": True}],
}
# What takes part with large tensors.
HEAVY = [
    ("AdamW", FUSED, torch.float32, {}), ("AdamW", LOOP, torch.float32, {}),
    ("Adam", FUSED, torch.float32, ADAM[-1]), ("Adam", LOOP, torch.float32, ADAM[-1]),
    ("SGD", FUSED, torch.float32, OTHERS["SGD"][-1]), ("SGD", LOOP, torch.float32, OTHERS["SGD"][-1]),
    ("Adagrad", FUSED, torch.float32, {}), ("Adagrad", LOOP, torch.float32, OTHERS["Adagrad"][1]),
    ("AdamW", FUSED, HALF, {}), ("AdamW", LOOP, HALF, {}),
]


@pytest.fixture(scope="module")
def pool():
    try:
        return native.Pool(2)
    except OSError as error:
        pytest.skip(str(error))


@pytest.fixture
def threads():
    """Sets how many PyTorch computes with. One, if nobody asks: others wait spinning."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


def follow(rule, variant, dtype, sizes, pool, seed=1, steps=STEPS, scale=1.0, **options):
    """Both sides, with a learning rate that changes at every step."""
    source = numbers(max(sizes) + 64 * steps, seed, dtype)
    parameters = [source[steps:steps + size] for size in sizes]
    try:
        pair = Pair(rule, parameters, variant, pool, lr=0.01, **options)
    except native.Refused as refused:
        assert "fused SGD leaves bfloat16" in str(refused)
        return None
    for step in range(1, steps + 1):
        gradients = [source[61 * step:61 * step + size] for size in sizes]
        pair.step(step, gradients, scale, lr=0.01 * (1 + step % 7 / 10))
    return pair


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("variant", [FUSED, LOOP])
@pytest.mark.parametrize("rule", OTHERS)
def test_all_options_at_the_borders_of_vectors(rule, variant, dtype, pool, threads):
    for options in OTHERS[rule]:
        follow(rule, variant, dtype, SMALL, pool, **options)


@pytest.mark.parametrize("seed", range(2, 2 + ROUNDS))
@pytest.mark.parametrize("rule, variant, dtype, options", HEAVY)
def test_large_tensors(rule, variant, dtype, options, seed, pool, threads):
    pair = follow(rule, variant, dtype, (LARGE,), pool, seed, **options)
    assert pair.updates == STEPS * LARGE
    # They are numbers, most of them, and have moved.
    moved = pair.ours.parameters[0]
    assert moved.isfinite().float().mean() > 0.8
    assert differing(moved, numbers(LARGE + 64 * STEPS, seed, dtype)[STEPS:STEPS + LARGE])[0] > LARGE / 2


@pytest.mark.parametrize("rule", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_a_scaled_gradient_is_divided_and_written_back(rule, pool, threads):
    for dtype in (torch.float32, HALF):
        follow(rule, FUSED, dtype, SMALL, pool, steps=10, scale=3.0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_bfloat16_in_a_loop_is_cut_as_threads_are_counted(count, pool, threads):
    threads(count)
    sizes = (31, 32767, 32768, 32769, 65537, 98305, 200003)
    for rule, options in (("SGD", OTHERS["SGD"][-1]), ("Adam", {"weight_decay": 0.1}),
                          ("Adagrad", {"weight_decay": 0.1})):
        follow(rule, LOOP, HALF, sizes, pool, steps=4, **options)


def test_the_cuts_make_a_difference(pool, threads):
    """What the test above is for."""
    source = numbers(200003, 5, HALF)

    def moved(count):
        threads(count)
        parameter = torch.nn.Parameter(source.clone())
        parameter.grad = source.flip(0)
        torch.optim.SGD([parameter], lr=0.0123, foreach=False).step()
        return parameter.detach()

    assert differing(moved(1), moved(3))[1] > 0


@pytest.mark.parametrize("variant", [FUSED, LOOP])
def test_subnormal_numbers_are_flushed_where_the_caller_does(variant, pool, threads):
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    try:
        flushed = follow("AdamW", variant, torch.float32, (70001,), pool, steps=1)
    finally:
        torch.set_flush_denormal(False)
    kept = follow("AdamW", variant, torch.float32, (70001,), pool, steps=1)
    assert differing(flushed.ours.states[0][0], kept.ours.states[0][0])[1] > 0


def test_roots_do_not_depend_on_the_block(threads):
    address, mode = native.torch_square_roots()
    if address is None:
        pytest.skip("torch.sqrt is IEEE's here")
    function = native.ctypes.CFUNCTYPE(None, native.ctypes.c_int, native.ctypes.c_void_p,
                                       native.ctypes.c_void_p, native.ctypes.c_int64)(address)
    all_bits = torch.randint(0, 2**31, (4_000_037,), dtype=torch.int64,
                             generator=torch.Generator().manual_seed(1)).int().view(torch.float32)
    wanted = all_bits.sqrt()
    begin = 0
    for turn in range(10**6):
        if begin == all_bits.numel():
            break
        count = min(1 + turn * 37 % 2000, all_bits.numel() - begin)
        part = all_bits[begin:begin + count]
        function(count, part.data_ptr(), part.data_ptr(), mode)
        begin += count
    assert differing(all_bits, wanted)[1] == 0


def test_roots_take_no_threads_beside_those_that_update(threads):
    """MKL would wake threads of its own for each block, which takes longer than the roots."""
    if native.torch_square_roots()[0] is None:
        pytest.skip("torch.sqrt is IEEE's here")
    threads(2)
    pool = native.Pool(2)
    running = []

    def train():  # in a thread that has none yet
        ours = Ours("AdamW", [torch.ones(100_000)], LOOP, pool, lr=0.1)
        for _ in range(2):
            running.append(len(os.listdir("/proc/self/task")))
            ours.step(1, [torch.ones(100_000)])

    trainer = threading.Thread(target=train)
    trainer.start()
    trainer.join()
    assert running[1] <= running[0]


def test_without_a_pool_and_in_ranges_it_is_the_same(pool, threads):
    with_pool = follow("AdamW", FUSED, torch.float32, SMALL, pool, steps=3)
    alone = follow("AdamW", FUSED, torch.float32, SMALL, None, steps=3)
    for one, other in zip(with_pool.ours.parameters, alone.ours.parameters):
        assert differing(one, other)[0] == 0


def test_threads_share_a_pool(pool, threads):
    """Each with tensors of its own; the steps of all take turns."""
    alone = follow("AdamW", FUSED, torch.float32, (70001,), None, steps=20).ours.parameters[0]
    results = {}

    def train(number):
        results[number] = follow("AdamW", FUSED, torch.float32, (70001,), pool, steps=20)

    trainers = [threading.Thread(target=train, args=(i,)) for i in range(4)]
    for trainer in trainers:
        trainer.start()
    for trainer in trainers:
        trainer.join()
    assert [differing(results[i].ours.parameters[0], alone)[0] for i in range(4)] == [0] * 4


def test_in_the_child_of_a_fork_a_pool_works_without_its_threads(pool, threads):
    ours = follow("AdamW", FUSED, torch.float32, (70001,), pool, steps=1).ours
    gradient = numbers(70001, 9)
    child = os.fork()
    if child == 0:
        before = ours.parameters[0].clone()
        ours.step(2, [gradient])
        os._exit(0 if differing(ours.parameters[0], before)[1] > 60000 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_cannot_be_had_is_refused_in_one_line(pool):
    with pytest.raises(native.Refused, match="gradients of bfloat16 parameters are bfloat16"):
        native.Update(native.Options(native.ADAM, LOOP, native.BFLOAT16, native.FLOAT32))
    with pytest.raises(native.Refused, match="another version"):
        native.Update(native.Options(77))


def test_a_missing_library_is_said(monkeypatch):
    monkeypatch.setattr(native, "_BESIDE", ())
    with pytest.raises(OSError, match="make build"):
        native.library_path()
