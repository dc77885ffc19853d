#!/usr/bin/env python3
"""Training on a GPU beyond a memory budget: plain PyTorch, Spillway under budgets and policies, and
PyTorch's own save_on_cpu, side by side.

Each run is a process of its own with a time limit; one that fails or is stuck costs its limit and no
more. A line says that a run begins; its numbers are printed, with where the time went (docs/cuda.md),
and the JSON file is written, as soon as it has ended. What matters most comes first: plain PyTorch,
then the policies in the order asked for. It can be stopped at any time (Ctrl-C, or TERM): what is
known then is kept, that of the run under way as well.

Rows:
plain            PyTorch without Spillway; its max_memory_allocated is the peak that percents refer to
P % policy       `spillway run` with that budget and the default host memory
save_on_cpu      torch.autograd.graph.save_on_cpu(pin_memory=True), no budget; of a compiled model
                 activation_memory_budget 0.5
torchao, deepspeed  their optimizers on the CPU (--others), no budget; checkp.: with checkpointing
checkpointing    PyTorch's own, of each block (--others checkpointing)
P % N GB/s       as P % policy over a link held to N GB/s each way (--links)
near in turn     --near-optimizer off and on within a budget, ten steps of one at a time (--near), and
                 the same over each of --links
calls in a step  what the program's calls cost its thread, in our code and in the driver's; counting
                 takes 0.1 to 0.2 us a call
in turn          where everything fits (--fits): processes of each kind live side by side, ten steps
                 of one at a time. async is PyTorch's cudaMallocAsync backend, names has names of
                 modules, counted has calls counted; without these three (--without) the device has
                 space for four processes of each kind

Columns: budget and peak, GiB; the median step from the third on; speed, plain's time over this one;
GiB in and out a step, the start included; stall %, the time in which the first launch of some stream
waited; GB/s of the larger direction over the stalled time and over the steps; the most that nvidia-smi
reports, and how much of it lies beside the budget; losses, `same N` if the first N are the same bits
as plain's, which needs --deterministic, and that slows PyTorch's thread down. --link (busy_link.py)
switches bypass mode off: leave it out where times matter. Processes of one kind differ by up to a
tenth. The fastest step has warm caches and hides what cold ones cost."""

import argparse
import dataclasses
import json
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from busy_link import BusyLink, busy_link

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent.parent / "tools"))
from program import program  # noqa: E402, it is found there

CHILD = FOLDER / "train_models.py"
GIB = 1 << 30
MIB = 1 << 20
MODELS = ["gpt2-xl", "gpt2", "bert-large", "lengths", "dlrm", "resnet152", "vgg19",
          "gpt2-xl-compiled", "gpt2-3b"]
WARM_UP = 2  # steps that do not count
WARM_UP_SERVED = 5  # those of a process that takes turns (train_models.py), and what each turn has
SERVED_STEPS = 10


class DeviceUse:
    """The most that the driver reports as used on the device while it lasts."""

    def __enter__(self):
        self.before_mib = self.most_mib = 0
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits",
                   "-i", visible]
        try:
            self.before_mib = int(subprocess.run(command, capture_output=True, text=True,
                                                 timeout=20, check=True).stdout.split()[0])
            self.process = subprocess.Popen([*command, "-lms", "100"], stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True)
        except (OSError, ValueError, IndexError, subprocess.SubprocessError):
            self.process = None
            return self
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        return self

    def read(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.most_mib = max(self.most_mib, int(line))

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.thread.join(5)

    def gib(self):
        """Beyond what others used before; None where nothing was read."""
        return (self.most_mib - self.before_mib) * MIB / GIB if self.most_mib else None


class Budget:
    """A percentage of what plain PyTorch needs at most (80), or so much (20GiB)."""

    def __init__(self, text):
        self.is_part = not text.endswith("GiB")
        self.number = int(text) if self.is_part else float(text.removesuffix("GiB"))
        self.name = f"{text} %" if self.is_part else text

    def bytes(self, peak_bytes):
        wanted = peak_bytes * self.number // 100 if self.is_part else int(self.number * GIB)
        return wanted // (2 * MIB) * 2 * MIB


class SetUp:
    """One way to run a model; `more` is what train_models.py is told beside the model."""

    def __init__(self, name, budget=None, policy=None, more=(), link=None):
        self.name, self.budget, self.policy, self.more = name, budget, policy, more
        self.held = ["--link-bandwidth", f"{link}GB"] if link else []

    def budget_bytes(self, peak_bytes):
        return self.budget.bytes(peak_bytes) if self.policy else None

    def spillway(self, options, peak_bytes, record, *more):
        if self.policy is None:
            return []
        # Of host memory what a user has who does not say: tables that are used where they lie (far)
        # need more of it than what does not fit.
        return [options.spillway, "run", "--device", "cuda", "--device-memory",
                f"{self.budget_bytes(peak_bytes) // MIB}MiB", "--policy", self.policy,
                "--json", record, *self.held, *more, "--"]


def plain():
    return SetUp("plain")


def spillway(budget, policy, link=None):
    """Over a link held to so many GB/s, where one is named."""
    return SetUp(f"{budget.name} {f'{link} GB/s' if link else policy}", budget, policy, link=link)


def others(names):
    """Optimizers of other libraries that keep their states on the CPU, alone and with checkpointing; a line
    says so where one is not installed."""
    rows = [SetUp("checkpointing", more=["--checkpointing"])] if "checkpointing" in names else []
    return rows + [SetUp(name + suffix, more=["--optimizer", name, *more]) for name in names
                   for suffix, more in (("", []), (" checkp.", ["--checkpointing"]))
                   if name != "checkpointing"]


def instead_of_spillway(model):
    """PyTorch's own way to need less. A compiled model computes again what it does not keep."""
    if model.endswith("-compiled"):
        return SetUp("recompute 0.5", more=["--activation-budget", 0.5])
    return SetUp("save_on_cpu", more=["--save-on-cpu"])


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def child(options, model, *more):
    words = [sys.executable, str(CHILD), model, *map(str, more)]
    return words + (["--deterministic"] if options.deterministic else [])


def read_record(path):
    lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines() if line]
    return max(lines, key=lambda record: record.get("launches", 0), default={})


class Stopped(Exception):
    """Somebody wants no more runs."""


def stop(*_):
    raise Stopped


def read_steps(result, printed):
    for line in printed.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if "ms" in told:
            result["ms"].append(told["ms"])
            result["losses"].append(told["loss"])
        else:
            result.update(told)


def run(options, model, set_up, peak_bytes):
    """What is known of the run, however it ended."""
    limit = min(options.limit, options.left())
    result = {"model": model, "set_up": set_up.name, "policy": set_up.policy,
              "budget_bytes": set_up.budget_bytes(peak_bytes), "ms": [], "losses": []}
    with tempfile.TemporaryDirectory() as folder, DeviceUse() as use:
        record, work, timeline = (f"{folder}/{name}" for name in ("record", "work", "timeline"))
        noted = ["--trace-events", timeline] if options.link else []
        command = set_up.spillway(options, peak_bytes, record, *noted) + child(
            options, model, "--steps", options.steps, "--seconds", limit * 0.5,
            "--stacks-after", limit * 0.9, *set_up.more)
        begin = time.monotonic()
        with open(f"{folder}/out", "w+") as out, open(f"{folder}/err", "w+") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True,
                                       env={**os.environ, "SPILLWAY_WORK_TIMES": work})
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                result["failed"] = f"not ended after {limit:.0f} s"
            except Stopped:
                result["failed"] = "stopped"
            end(process)
            out.seek(0)
            err.seek(0)
            printed, said = out.read(), err.read()
        result["whole_s"] = time.monotonic() - begin
        if os.path.exists(record):
            result["record"] = read_record(record)
        if os.path.exists(work):
            result["work"] = json.loads(pathlib.Path(work).read_text())
        read_steps(result, printed)
        if os.path.exists(timeline) and process.returncode == 0 and len(result["ms"]) > WARM_UP:
            result["link"] = steady_link(timeline, result["ms"])
    if process.returncode != 0:
        result.setdefault("failed", f"exit status {process.returncode}")
    if "failed" in result:
        result["said"] = said.splitlines()[-25:]
    result["spillway_said"] = [line for line in said.splitlines() if line.startswith("spillway:")]
    result["device_use_gib"] = use.gib()
    return result


def steady_link(timeline, ms):
    """How busy the link was in the steps after the first ones, of each process."""
    try:
        whole = json.loads(pathlib.Path(timeline).read_text())
        return [dataclasses.asdict(link)
                for link in busy_link(whole, sum(ms[WARM_UP:]) / 1e3).values()]
    except ValueError as error:
        print(f"    {error}", flush=True)
        return []


def losses_compared(result, reference):
    if reference is None or not result["losses"]:
        return "-"
    pairs = list(zip(reference["losses"], result["losses"]))
    for step, (a, b) in enumerate(pairs):
        if a != b:
            return f"differ at {step}"
    return f"same {len(pairs)}"


HEADER = (f"{'model':<11}{'set-up':<17}{'budget':>7}{'peak':>7}{'step ms':>9}{'speed':>7}{'in':>7}"
          f"{'out':>7}{'stall %':>8}{'GB/s':>6}{'busy':>6}{'device':>8}{'beside':>8}  losses")


def columns(result, reference):
    """The numbers of a line; None where there is none."""
    steps = result["ms"][WARM_UP:] or result["ms"][-1:]
    record = result.get("record", {})
    found = {"step_ms": statistics.median(steps) if steps else None}
    plain_steps = reference["ms"][WARM_UP:] if reference else []
    if steps and plain_steps:
        found["speed"] = statistics.median(plain_steps) / found["step_ms"]
    if record and result["ms"]:
        routes, count = record.get("moved_bytes", {}), len(result["ms"])
        inward, out = routes.get("host_to_device", 0), routes.get("device_to_host", 0)
        stalled_s, steps_s = record.get("stalled_s", 0), sum(result["ms"]) / 1e3
        found.update(in_gib=inward / GIB / count, out_gib=out / GIB / count,
                     stalled=stalled_s / steps_s,
                     stalled_gb_s=max(inward, out) / stalled_s / 1e9 if stalled_s > 0 else None,
                     step_gb_s=max(inward, out) / steps_s / 1e9)
    return found


def number(value, width, digits=2, scale=1.0):
    return f"{'-' if value is None else f'{value * scale:.{digits}f}':>{width}}"


def line_of(result, reference):
    found = columns(result, reference)
    budget, peak, use = (result["budget_bytes"], result.get("peak_bytes"), result["device_use_gib"])
    beside = None if budget is None or use is None else use - budget / GIB
    return (f"{result['model']:<11}{result['set_up']:<17}"
            f"{number(budget, 7, 2, 1 / GIB)}{number(peak, 7, 2, 1 / GIB)}"
            f"{number(found['step_ms'], 9, 1)}{number(found.get('speed'), 7, 3)}"
            f"{number(found.get('in_gib'), 7)}{number(found.get('out_gib'), 7)}"
            f"{number(found.get('stalled'), 8, 1, 100)}"
            f"{number(found.get('stalled_gb_s'), 6, 1)}{number(found.get('step_gb_s'), 6, 1)}"
            f"{number(use, 8)}{number(beside, 8)}  {losses_compared(result, reference)}")


def work_lines(result):
    """Where the time of all steps went, as the run itself has counted it."""
    work = result.get("work")
    if not work:
        return []
    seconds = (lambda name: f"{work[name]['s']:.2f} s")
    counted = (lambda name: f"{work[name]['count']} in {work[name]['s']:.2f} s")
    link = {way: work[f"link_{way}"]["s"] for way in ("in", "out")}
    routes = result.get("record", {}).get("moved_bytes", {})
    carried = {"in": routes.get("host_to_device", 0), "out": routes.get("device_to_host", 0)}
    return [
        *("after the first steps " + BusyLink(**link).text() for link in result.get("link", [])),
        "stalled " + ", ".join(f"{name} {seconds('stalled_' + name)}"
                               for name in ("idle", "in", "out", "both"))
        + f" (link); before release {seconds('stalled_unreleased')}, before memory "
          f"{seconds('stalled_unmapped')}, {work['stalled_unmapped']['count']} times",
        "link " + ", ".join(
            f"{way} {carried[way] / GIB:.1f} GiB in {busy:.2f} s"
            + (f" ({carried[way] / busy / 1e9:.1f} GB/s)" if busy > 0 else "")
            for way, busy in link.items()),
        "handles made " + counted("create") + ", released " + counted("release") + ", mapped "
        + counted("map") + ", access " + counted("access") + ", unmapped " + counted("unmap"),
        f"driver thread: {work['round']['count']} rounds in {seconds('round')}, asleep "
        f"{seconds('asleep')}, in the engine {seconds('engine')}",
        f"gated {work['gated']['count']}; program held ahead {counted('held_ahead')}, for room "
        f"{counted('held_for_room')}, for copies {counted('held_for_copy')}, for gates "
        f"{counted('held_for_gate')}",
        *call_lines(work, len(result["ms"]) + result.get("more_steps", 0))]


CALLS = ("launch", "allocation", "free", "copy", "memset", "event_record", "stream_wait",
         "question", "synchronize", "other")


def call_lines(work, steps):
    """What the program's calls cost it, in a step: docs/cuda.md, "What takes how long"."""
    if "timing" not in work or steps == 0:
        return []

    def part(name):
        all_of, long = work[name], work[name + "_long"]
        each_us = 1e6 * all_of["s"] / all_of["count"] if all_of["count"] else 0
        middle = work.get(name + "_median", {"count": 0})
        return ((f"{1e6 * middle['s'] / middle['count']:.2f} us median, " if middle["count"] else "")
                + f"{each_us:.2f} us each, {1e3 * all_of['s'] / steps:.2f} ms"
                + (f" and {long['count'] / steps:.1f} long, {1e3 * long['s'] / steps:.2f} ms"
                   if long["count"] else ""))

    lines = [f"calls in a step of {steps}; to count one takes "
             f"{1e6 * work['timing']['s'] / work['timing']['count']:.2f} us; tickets "
             f"{work['ticket']['count'] / steps:.0f}, {1e3 * work['ticket']['s'] / steps:.2f} ms; "
             f"gates {work['gated']['count'] / steps:.0f}, "
             f"{1e3 * work['gated']['s'] / steps:.2f} ms"]
    for kind in CALLS:
        count = work[kind + "_ours"]["count"] + work[kind + "_ours_long"]["count"]
        if count:
            lines.append(f"  {kind:<12} {count / steps:7.0f}: ours {part(kind + '_ours')}; "
                         f"the driver's {part(kind + '_driver')}")
    return lines


class Bench:
    def __init__(self, options):
        self.options = options
        self.begin = time.monotonic()
        options.left = self.left
        self.results = []
        self.plain = {}  # by model
        self.failed = 0

    def left(self):
        return self.options.for_s - (time.monotonic() - self.begin)

    def keep(self, result):
        self.results.append(result)
        if self.options.json:
            new = pathlib.Path(self.options.json + ".new")
            new.write_text(json.dumps({"steps": self.options.steps,
                                       "deterministic": self.options.deterministic,
                                       "results": self.results}, indent=1))
            new.replace(self.options.json)

    def one(self, model, set_up):
        reference = self.plain.get(model)
        if set_up.name != "plain":
            if reference is None or "skipped" in reference:
                return
            if "peak_bytes" not in reference:
                print(f"{model:<11}{set_up.name:<17} not run: its peak is not known", flush=True)
                return
        if self.left() < 15:
            print(f"{model:<11}{set_up.name:<17} not run: no time left", flush=True)
            return
        print(f"[{time.monotonic() - self.begin:.0f} s] {model}, {set_up.name} begins",
              file=sys.stderr, flush=True)
        result = run(self.options, model, set_up, reference["peak_bytes"] if reference else 0)
        if set_up.name == "plain":
            self.plain[model] = result
        result.update(columns(result, self.plain[model]))
        self.keep(result)
        if "skipped" in result:
            print(f"{model:<11} skipped: {result['skipped']}", flush=True)
            return
        print(line_of(result, self.plain[model]) + f"  [{result['whole_s']:.0f} s]", flush=True)
        for line in work_lines(result):
            print("    " + line, flush=True)
        for line in result["spillway_said"]:
            print("    " + line, flush=True)
        if "failed" in result:
            self.failed += 1
            print(f"    FAILED: {result['failed']}", *result["said"], sep="\n    | ", flush=True)
        if result.get("failed") == "stopped":
            raise Stopped

    def in_turn(self, model):
        """Step times when everything fits: processes that all live, one running at a time. Several of
        each kind: processes of one kind differ, as cores do, by more than what is asked about."""
        reference = self.plain.get(model, {})
        if "peak_bytes" not in reference or self.left() < 40:
            print(f"{model:<11}in turn: not run", flush=True)
            return
        fits = SetUp("fits", self.options.fits, self.options.policies[0])
        with tempfile.TemporaryDirectory() as folder:
            backend = "backend:cudaMallocAsync"
            under = fits.spillway(self.options, reference["peak_bytes"], f"{folder}/record")
            without_names = {"SPILLWAY_MODULE_NAMES": "0"}
            # Each with what stands before the program, its environment, and how many processes.
            set_ups = {"plain": ([], {}, self.options.processes),
                       # The allocator that Spillway has PyTorch use, on the driver's own memory.
                       "plain async": ([], {"PYTORCH_ALLOC_CONF": backend,
                                            "PYTORCH_CUDA_ALLOC_CONF": backend},
                                       self.options.processes),
                       "spillway": (under, without_names, self.options.processes),
                       "with names": (under, {}, 1),
                       "counted": (fits.spillway(self.options, reference["peak_bytes"],
                                                 f"{folder}/counted"),
                                   {"SPILLWAY_WORK_TIMES": f"{folder}/work", **without_names}, 1)}
            for name, left_out in (("plain async", "async"), ("with names", "names"),
                                   ("counted", "counted")):
                if left_out in self.options.without:
                    del set_ups[name]
            if self.options.beside:
                set_ups["the other spillway"] = ([self.options.beside, *under[1:]], without_names,
                                                 self.options.processes)
            times = self.take_turns(model, set_ups)
            record = (read_record(f"{folder}/record")
                      if os.path.exists(f"{folder}/record") else {})
            work = (json.loads(pathlib.Path(f"{folder}/work").read_text())
                    if os.path.exists(f"{folder}/work") else {})
        self.tell_turns(model, "in turn", self.options.fits.name, times, record, work)

    def near_in_turn(self, model, budget, link=None):
        """Within a budget, optimizers' updates at the host next to their states, and all on the device."""
        reference = self.plain.get(model, {})
        if "peak_bytes" not in reference or self.left() < 40:
            print(f"{model:<11}near in turn: not run", flush=True)
            return
        within = spillway(budget, self.options.policies[0], link)
        with tempfile.TemporaryDirectory() as folder:
            times = self.take_turns(model, {
                f"near {near}": (within.spillway(self.options, reference["peak_bytes"], f"{folder}/{near}",
                                                 "--near-optimizer", near), {}, 1)
                for near in ("off", "on")})
            records = [read_record(f"{folder}/{near}") if os.path.exists(f"{folder}/{near}") else {}
                       for near in ("off", "on")]
        self.tell_turns(model, "near in turn", within.name, times, records[1], {})
        print(f"    updates at the host: {records[1].get('updates', 0)}", flush=True)

    def take_turns(self, model, set_ups):
        """Times of processes that all live, by set-up and process: middle and least of each turn."""
        processes, times = {}, {name: [[] for _ in range(count)]
                                for name, (_, _, count) in set_ups.items()}
        until = time.monotonic() + min(self.options.limit, self.left())
        try:
            for name, (before, environment, count) in set_ups.items():
                for at in range(count):
                    processes[name, at] = subprocess.Popen(
                        before + child(self.options, model, "--serve", "--steps", SERVED_STEPS),
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                        env={**os.environ, **environment})
            for process in processes.values():
                answer(process, until)
            for turn in range(self.options.rounds):
                for name, at in list(processes)[::1 if turn % 2 == 0 else -1]:
                    process = processes[name, at]
                    process.stdin.write(b"\n")
                    process.stdin.flush()
                    middle, least = map(float, answer(process, until).split())
                    times[name][at].append((middle, least))
            for process in processes.values():
                process.stdin.close()
                process.wait(max(1, until - time.monotonic()))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.failed += 1
            print(f"    FAILED: {model} in turn: {error}", flush=True)
        finally:
            for process in processes.values():
                end(process)
        return times

    def tell_turns(self, model, title, budget, times, record, work):
        rounds = min(len(some) for of_kind in times.values() for some in of_kind)
        if rounds == 0:
            return
        middles = {name: sorted(statistics.median(middle for middle, _ in some)
                                for some in of_kind) for name, of_kind in times.items()}
        leasts = {name: min(least for some in of_kind for _, least in some)
                  for name, of_kind in times.items()}
        first = next(iter(times))
        ratios = {name: statistics.median(some) / statistics.median(middles[first])
                  for name, some in middles.items()}
        self.keep({"model": model, "set_up": title, "budget": budget, "times_ms": times, "ratios": ratios,
                   "record": record, "work": work})
        moved = sum(record.get("moved_bytes", {}).values()) / GIB
        print(f"{model:<11}{title}, {rounds} rounds, {budget}; moved {moved:.2f} GiB",
              flush=True)
        for name, some in middles.items():
            print(f"    {name:<19}{statistics.median(some):7.2f} ms ({ratios[name]:.3f}), the processes' "
                  f"{', '.join(f'{one:.2f}' for one in some)}; fastest step {leasts[name]:.2f} "
                  f"({leasts[name] / leasts[first]:.3f})", flush=True)
        steps = {"ms": [], "more_steps": WARM_UP_SERVED + SERVED_STEPS * rounds}
        for line in work_lines({**steps, "work": work, "record": record}):
            print("    " + line, flush=True)


def answer(process, until):
    """A line from a process, whose output nobody else has read."""
    ready, _, _ = select.select([process.stdout], [], [], max(0, until - time.monotonic()))
    line = process.stdout.readline() if ready else b""
    if not line:
        raise OSError("no answer")
    return line.decode().strip()


def distance_from_half(budget):
    """Those in GiB come last."""
    return abs(budget.number - 50) if budget.is_part else 1000


def go(options):
    bench = Bench(options)
    print(HEADER, flush=True)
    middle = min(options.budgets, key=distance_from_half)
    done = set()

    def once(model, set_up):
        if (model, set_up.name) not in done:
            done.add((model, set_up.name))
            bench.one(model, set_up)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        everything(options, bench, once, middle)
    except Stopped:
        print(f"stopped: {len(bench.results)} runs are kept", flush=True)
        return 1
    return 1 if bench.failed else 0


def everything(options, bench, once, middle):
    """The first model's main numbers, then the small one's beside plain PyTorch, then all others."""
    first = options.models[0]
    once(first, plain())
    if options.deterministic:
        once(first, SetUp("plain again"))  # is it?
    for policy in options.policies[:2] if "budgets" not in options.without else []:
        once(first, spillway(middle, policy))
    if "save_on_cpu" not in options.without:
        once(first, instead_of_spillway(first))
    if "fits" not in options.without:
        once(first, spillway(options.fits, options.policies[0]))
    if "gpt2" in options.models and "fits" not in options.without:
        once("gpt2", plain())
        bench.in_turn("gpt2")
    for model in options.models:
        once(model, plain())
        for budget in sorted(options.budgets, key=distance_from_half):
            if "budgets" in options.without:
                break
            for policy in options.policies:
                once(model, spillway(budget, policy))
            for link in options.links:
                once(model, spillway(budget, options.policies[0], link))
            for link in [None, *options.links] if options.near else []:
                bench.near_in_turn(model, budget, link)
        for set_up in others(options.others):
            once(model, set_up)
        if "save_on_cpu" not in options.without:
            once(model, instead_of_spillway(model))
        if "fits" not in options.without:
            once(model, spillway(options.fits, options.policies[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    split = (lambda kind: lambda text: [kind(word) for word in text.split(",")])
    parser.add_argument("--models", type=split(str), default=MODELS,
                        help="of " + ",".join(MODELS) + "; the most important one first")
    parser.add_argument("--budgets", type=split(Budget), default=split(Budget)("80,50,35"),
                        help="percent of plain PyTorch's peak, or as 20GiB")
    parser.add_argument("--fits", type=Budget, default=Budget("115"),
                        help="the budget in which all fits")
    parser.add_argument("--policies", type=split(str), default=["lookahead", "base_uvm", "deepum"],
                        help="the most important one first")
    parser.add_argument("--without", type=split(str), default=[],
                        help="leave out save_on_cpu (or what a compiled model has instead), "
                        "fits (where all fits), budgets, of what takes turns async, names, counted, "
                        "or several of them; the fewer there are, the more processes of each the "
                        "device has room for")
    parser.add_argument("--beside", help="another build of the program, which takes turns with this "
                        "one where everything fits")
    parser.add_argument("--near", action="store_true", help="within each budget, updates of optimizers "
                        "at the host and all on the device, in turns (docs/near-memory.md)")
    parser.add_argument("--links", type=split(int), default=[], help="GB/s: within each budget under the "
                        "first policy, with the link held to so much")
    parser.add_argument("--others", type=split(str), default=[], help="checkpointing, and optimizers on the "
                        "CPU of torchao, deepspeed, with and without it, where they are installed")
    parser.add_argument("--steps", type=int, default=8, help="of each run; the first two are left "
                        "out of the medians")
    parser.add_argument("--rounds", type=int, default=6, help="of taking turns")
    parser.add_argument("--processes", type=int, default=3, help="of each kind that takes turns")
    parser.add_argument("--limit", type=float, default=120, help="seconds for each process")
    parser.add_argument("--for", dest="for_s", type=float, default=3600,
                        help="seconds for everything: what has not begun by then is left out")
    parser.add_argument("--deterministic", action="store_true",
                        help="PyTorch's deterministic algorithms: losses must be the same bits")
    parser.add_argument("--link", action="store_true", help="how busy the link was while launches "
                        "waited; the timelines for it cost time in each launch, and most where all fits")
    parser.add_argument("--json", help="a file for all that is known of each run")
    parser.add_argument("--spillway", default=program(), help="tools/program.py says which")
    # What is measured are programs without hooks in them; no row here names modules.
    os.environ.setdefault("SPILLWAY_MODULE_NAMES", "0")
    return go(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
