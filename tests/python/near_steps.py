"""An optimizer of PyTorch's and libspillway_near side by side, for test_near_*.py and bench/near_adam.py."""

import torch

from spillway.near import native

TYPES = {torch.float32: native.FLOAT32, torch.bfloat16: native.BFLOAT16}
WORDS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
RULES = {"Adam": native.ADAM, "AdamW": native.ADAM, "SGD": native.SGD, "Adagrad": native.ADAGRAD}
# Where PyTorch keeps them; the order is that of native.in_place.
STATES = {"Adam": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
          "AdamW": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
          "SGD": ("momentum_buffer",), "Adagrad": ("sum",)}


def differing(one, other):
    """(elements whose bits differ, those of them that are not NaN in both)."""
    one_word, other_word = one.view(WORDS[one.dtype]), other.view(WORDS[other.dtype])
    if torch.equal(one_word, other_word):
        return 0, 0
    differ = one_word != other_word
    return int(differ.sum()), int((differ & ~(one.isnan() & other.isnan())).sum())


class Ours:
    """Parameters and states beside PyTorch's, updated by libspillway_near."""

    def __init__(self, rule, parameters, variant, pool, gradient_type=None, **options):
        self.rule, self.pool, self.options = rule, pool, options
        self.parameters = [p.detach().clone() for p in parameters]
        kept = self.kept()
        self.states = [[torch.zeros_like(p) for _ in kept] for p in self.parameters]
        kind = TYPES[parameters[0].dtype]
        roots = native.torch_square_roots() if variant == native.LOOP_CPU else (None, 0)
        coupled = rule == "Adam" and options.get("weight_decay", 0) != 0
        self.update = native.Update(native.Options(
            RULES[rule], variant, kind, kind if gradient_type is None else gradient_type,
            rule == "AdamW", options.get("amsgrad", False), options.get("maximize", False),
            options.get("nesterov", False), torch.get_num_threads(), options.get("compute_capability", 0), *roots, coupled))

    def kept(self):
        """The names of the states that these options have."""
        if self.rule == "SGD":
            return STATES["SGD"] if self.options.get("momentum", 0) else ()
        return STATES[self.rule][:2 + self.options.get("amsgrad", False)]

    def numbers(self, step, scale):
        beta1, beta2 = self.options.get("betas", (0.9, 0.999))
        return native.Step(
            step=step, learning_rate=self.options["lr"], beta1=beta1, beta2=beta2,
            epsilon=self.options.get("eps", 1e-10 if self.rule == "Adagrad" else 1e-8),
            weight_decay=self.options.get("weight_decay", 0.01 if self.rule == "AdamW" else 0),
            momentum=self.options.get("momentum", 0), dampening=self.options.get("dampening", 0),
            learning_rate_decay=self.options.get("lr_decay", 0), gradient_scale=scale)

    def step(self, number, gradients, scale=1.0):
        numbers = self.numbers(number, scale)
        addresses = [[s.data_ptr() for s in states] for states in self.states]
        self.update.run([
            native.in_place(numbers, p.numel(), p.data_ptr(), g.data_ptr(), *states,
                            gradient_out=g.data_ptr() if scale != 1 else None)
            for p, g, states in zip(self.parameters, gradients, addresses)], self.pool)


def numbers(count, seed, dtype=torch.float32):
    """Many magnitudes, and among them subnormal and huge numbers, any bits at all, zeros of both signs
    and a few infinities and NaN."""
    random = torch.Generator().manual_seed(seed)
    normal = torch.randn(count, generator=random)
    result = normal * torch.exp2(torch.randint(-20, 10, (count,), generator=random).float())
    words = torch.randint(-2**31, 2**31, (count,), dtype=torch.int64, generator=random).int()
    kind = torch.randint(0, 20000, (count,), generator=random)
    result = torch.where(kind < 400, words.view(torch.float32), result)
    result = torch.where((kind >= 400) & (kind < 800), (words & 0x807FFFFF).view(torch.float32), result)
    result = torch.where((kind >= 800) & (kind < 1200), torch.zeros(()).copysign(normal), result)
    result = torch.where(kind == 1200, torch.tensor(float("inf")).copysign(normal), result)
    return result.to(dtype)


class Pair:
    """The same steps on both sides, compared after each."""

    def __init__(self, rule, parameters, variant, pool, **options):
        self.theirs = [torch.nn.Parameter(p.detach().clone()) for p in parameters]
        self.fused = variant == native.FUSED_CPU
        self.optimizer = getattr(torch.optim, rule)(
            self.theirs, **options, **({"fused": True} if self.fused else {"foreach": False}))
        self.ours = Ours(rule, parameters, variant, pool, **options)
        self.payloads = 0
        self.updates = 0

    def step(self, number, gradients, scale=1.0, **changes):
        own = [g.clone() for g in gradients]
        for parameter, gradient in zip(self.theirs, gradients):
            parameter.grad = gradient.clone() if scale != 1 else gradient
        self.optimizer.param_groups[0].update(changes)
        self.ours.options.update(changes)
        if scale != 1:
            self.optimizer.grad_scale = torch.tensor(scale)
            self.optimizer.found_inf = torch.tensor(0.0)
        self.optimizer.step()
        self.ours.step(number, own, scale)
        if scale != 1:
            self.compare("gradient", [p.grad for p in self.theirs], own, number)
        self.compare("parameter", [p.data for p in self.theirs], self.ours.parameters, number)
        for k, name in enumerate(self.ours.kept()):
            self.compare(name, [self.optimizer.state[p][name] for p in self.theirs],
                         [states[k] for states in self.ours.states], number)
        self.updates += sum(p.numel() for p in self.theirs)

    def compare(self, what, theirs, ours, number):
        for one, other in zip(theirs, ours):
            bits, real = differing(one, other)
            self.payloads += bits - real
            assert real == 0, f"step {number}: {real} of {one.numel()} elements differ in {what}"
