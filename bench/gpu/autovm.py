#!/usr/bin/env python3
"""A compiled transformer within a memory budget, with AutoVM's pass over its graphs and without it, by turns.

For each policy two processes live side by side, each within the budget: the model compiled by inductor, and by
the backend "spillway" (docs/python.md, "Graphs of torch.compile"). Both compile at once, then take turns: some
steps of one while the other waits. Prints, for each of the four, the median step with the range of the rounds'
medians, what moved in a step, what the pass has asked for, and whether all losses are the same bits; then how
much faster the pass is than none, under each policy, and than none under the first policy.

Everything has one time limit (--seconds): what is known by then is printed, and written after each turn. The
models are train_models.py's. What inductor compiles is kept in --cache: a second pair finds the first one's.

On a machine without a GPU: --model tiny --device host --memory 24MiB --policies deepum.
"""

import argparse
import json
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from program import program  # noqa: E402, it is found there

BACKENDS = ("inductor", "spillway")


# --- The process that trains -----------------------------------------------------------------------------------


def child(options):
    """Each line that comes is a turn; answers are JSON objects."""
    begin = time.monotonic()
    import torch
    try:
        import spillway.autovm
    except ImportError:  # no wheel is installed
        sys.path.insert(0, str(ROOT / "python"))
        import spillway.autovm
    import train_models

    device = torch.device("cuda" if options.device == "cuda" else "cpu")
    if options.deterministic:
        train_models.be_deterministic()
    torch.manual_seed(1)
    with device:
        model = (train_models.gpt2_xl() if options.model == "gpt2-xl"
                 else train_models.Transformer(4, 256, 4, 256, 2048))
    batch, length = (6, 1024) if options.model == "gpt2-xl" else (4, 256)
    more = {}
    if options.backend == "spillway":
        more = {"options": pass_options(options, sum(p.numel() * p.element_size() for p in model.parameters()))}
    task = train_models.Texts(torch.compile(model, backend=options.backend, **more), batch, lambda _: length)
    steps = 0
    for line in sys.stdin:
        times, losses = [], []
        before = spillway.stats()
        for _ in range(int(line)):
            start = time.monotonic()
            loss = task.loss(steps)
            loss.backward()
            task.optimizer.step()
            task.optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item().hex())  # waits
            times.append(1e3 * (time.monotonic() - start))
            steps += 1
        print(json.dumps({"ms": times, "losses": losses, **moved(before, spillway.stats(), len(times)),
                          "operators": sum(report.insertions for report in spillway.autovm.reports()),
                          "since_start_s": time.monotonic() - begin}), flush=True)
    print(json.dumps({"reports": [str(report) for report in spillway.autovm.reports()]}), flush=True)


def pass_options(options, parameter_bytes):
    """The graphs have the budget but for Adam's two states, which are in none of them."""
    from spillway.autovm.sizes import parse_bytes

    memory = parse_bytes(options.pass_memory or options.memory)
    if options.pass_memory is None:
        memory = max(memory - 2 * parameter_bytes, memory // 4)
    return {"device_memory": memory, **({"size_threshold": options.threshold} if options.threshold else {})}


def moved(before, after, steps):
    """In a step of this turn."""
    if not after:
        return {}
    def total(record, *keys):
        return sum((record or {"moved_bytes": {}})["moved_bytes"].get(key, 0) for key in keys)
    def both(*keys):
        return (total(after, *keys) - total(before, *keys)) / steps
    return {"in_bytes": both("host_to_device", "storage_to_device"),
            "out_bytes": both("device_to_host", "device_to_storage"),
            **{key: (after[key] - (before or {}).get(key, 0)) / steps
               for key in ("asked_prefetch_bytes", "asked_pre_evict_bytes", "pre_evictions", "prefetched_blocks",
                           "prefetches_late", "prefetches_wasted", "stalled_s")}}


# --- The one that measures -------------------------------------------------------------------------------------


class OutOfTime(Exception):
    pass


class Trainer:
    """A process under `spillway run`."""

    def __init__(self, options, policy, backend, deadline):
        self.name, self.deadline, self.turns = f"{backend}, {policy}", deadline, []
        self.errors = tempfile.TemporaryFile("w+")
        command = [program() if options.build is None else str(pathlib.Path(options.build) / "spillway"), "run",
                   "--device", options.device, "--device-memory", options.memory, "--host-memory",
                   options.host_memory, "--policy", policy, "--", sys.executable, __file__, "--child",
                   "--backend", backend, "--model", options.model, "--device", options.device, "--memory",
                   options.memory]
        command += ["--pass-memory", options.pass_memory] if options.pass_memory else []
        command += ["--threshold", options.threshold] if options.threshold else []
        command += [] if options.deterministic else ["--fast"]
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": options.cache,
                       "TRITON_CACHE_DIR": str(pathlib.Path(options.cache) / "triton"),
                       "SPILLWAY_MODULE_NAMES": "0"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=self.errors, env=environment, start_new_session=True)
        self.rest = b""

    def begin(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()

    def answer(self):
        """Raises OutOfTime, or RuntimeError with what the process said last."""
        out = self.process.stdout.fileno()
        while b"\n" not in self.rest:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise OutOfTime(f"{self.name}: no time is left")
            more = os.read(out, 1 << 16)
            if not more:
                raise RuntimeError(f"{self.name} has ended with {self.process.wait()}: {self.said()}")
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line) if line.startswith(b"{") else self.answer()

    def turn(self, steps):
        self.begin(steps)
        self.turns.append(self.answer())
        return self.turns[-1]

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-3000:]

    def end(self):
        """Its reports; kills it where it does not end by itself."""
        reports = []
        try:
            self.process.stdin.close()
            self.deadline = min(self.deadline, time.monotonic() + 15)
            reports = self.answer()["reports"]
            self.process.wait(max(1, self.deadline - time.monotonic()))
        except (OutOfTime, RuntimeError, OSError, subprocess.TimeoutExpired):
            pass
        self.kill()
        return reports

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def summary(trainer, reports):
    """Of the turns behind the first, which compiles and warms up."""
    turns = trainer.turns[1:]
    medians = sorted(statistics.median(turn["ms"]) for turn in turns)
    def mean(key):
        return statistics.mean(turn.get(key, 0) for turn in turns) if turns else None
    return {"median_ms": statistics.median(ms for turn in turns for ms in turn["ms"]) if turns else None,
            "medians_ms": medians, "losses": [loss for turn in trainer.turns for loss in turn["losses"]],
            **{key: mean(key) for key in ("in_bytes", "out_bytes", "asked_prefetch_bytes", "asked_pre_evict_bytes",
                                          "pre_evictions", "prefetched_blocks", "prefetches_late",
                                          "prefetches_wasted", "stalled_s")},
            "operators": trainer.turns[0]["operators"] if trainer.turns else 0, "turns": trainer.turns,
            "reports": reports, "said": trainer.said()}


def pair(options, policy, deadline, results):
    """Both backends under one policy."""
    trainers = []
    try:
        for backend in BACKENDS:
            trainers.append(Trainer(options, policy, backend, deadline))
        for trainer in trainers:
            trainer.begin(options.warm)
        for trainer in trainers:
            trainer.turns.append(trainer.answer())
            say(f"{trainer.name}: first steps {[round(ms) for ms in trainer.turns[0]['ms']]} ms, "
                f"{trainer.turns[0]['since_start_s']:.0f} s since its start")
        for trainer in trainers:
            trainer.turn(2)  # alone, for the first time
            trainer.turns[0]["losses"] += trainer.turns.pop()["losses"]
        for at in range(options.rounds):
            for trainer in trainers if at % 2 == 0 else trainers[::-1]:
                turn = trainer.turn(options.steps)
                say(f"{trainer.name}: {statistics.median(turn['ms']):.0f} ms")
                results[trainer.name] = summary(trainer, [])
                write(options, results)
    finally:
        for trainer in trainers:
            results[trainer.name] = summary(trainer, trainer.end())
        write(options, results)


def say(line):
    print(f"{time.monotonic() - STARTED:5.0f} s  {line}", flush=True)


def write(options, results):
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"options": vars(options), "results": results}, indent=1))


def gigabytes(value):
    return f"{(value or 0) / 1e9:6.2f}"


def print_table(options, results):
    measured = {name: result for name, result in results.items() if result["median_ms"] is not None}
    print(f"\n{options.model} within {options.memory}; GB in a step")
    print(f"{'':26}{'ms a step':>10}  {'rounds':>15}{'in':>7}{'out':>7}  {'asked in':>8} {'asked out':>9}  operators")
    for name, one in measured.items():
        rounds = f"{one['medians_ms'][0]:.0f} to {one['medians_ms'][-1]:.0f}"
        print(f"{name:26}{one['median_ms']:10.0f}  {rounds:>15} {gigabytes(one['in_bytes'])} "
              f"{gigabytes(one['out_bytes'])}  {gigabytes(one['asked_prefetch_bytes']):>8} "
              f"{gigabytes(one['asked_pre_evict_bytes']):>9}  {one['operators']}")
    losses = [one["losses"] for one in results.values() if one["losses"]]
    common = min(map(len, losses), default=0)
    same = all(one[:common] == losses[0][:common] for one in losses)
    print(f"the first {common} losses of all {len(losses)} {'are the same bits' if same else 'DIFFER'}")
    for policy in options.policies.split(","):
        without, ours = (measured.get(f"{backend}, {policy}") for backend in BACKENDS)
        if without and ours:
            print(f"under {policy} the pass makes it {without['median_ms'] / ours['median_ms']:.2f} times as fast")
    ours = measured.get(f"spillway, {options.policies.split(',')[0]}")
    for name, one in measured.items():
        if ours and name.startswith("inductor"):
            print(f"with the pass under {options.policies.split(',')[0]}: {one['median_ms'] / ours['median_ms']:.2f} "
                  f"times as fast as {name}")
    return same and bool(measured)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", choices=["gpt2-xl", "tiny"], default="gpt2-xl")
    parser.add_argument("--device", choices=["cuda", "host"], default="cuda")
    parser.add_argument("--memory", default="20GiB", help="device memory of each process")
    parser.add_argument("--host-memory", default="40GiB", help="of each process; two live at a time")
    parser.add_argument("--pass-memory", help="the budget that the pass reckons with (default: --memory without "
                                              "Adam's states)")
    parser.add_argument("--threshold", help="the pass's size threshold (default: it tunes itself)")
    parser.add_argument("--policies", default="lookahead,base_uvm")
    parser.add_argument("--warm", type=int, default=3, help="steps of the first turn, which compiles")
    parser.add_argument("--steps", type=int, default=4, help="of a turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=240, help="for all of it")
    parser.add_argument("--fast", dest="deterministic", action="store_false",
                        help="without PyTorch's deterministic algorithms: losses may differ")
    parser.add_argument("--cache", default=os.path.join(tempfile.gettempdir(), "spillway-autovm-cache"))
    parser.add_argument("--build", help="where spillway is (default: as tools/program.py finds it)")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--backend", choices=BACKENDS, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parsed()
    if options.child:
        child(options)
        return 0
    deadline, results = STARTED + options.seconds, {}
    for policy in options.policies.split(","):
        try:
            pair(options, policy, deadline, results)
        except (OutOfTime, RuntimeError, BrokenPipeError) as error:
            say(str(error))
            for name, one in results.items():
                if name.endswith(policy) and one["said"]:
                    print(f"{name} said:\n{one['said']}")
    return 0 if print_table(options, results) else 1


STARTED = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
