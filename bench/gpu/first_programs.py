#!/usr/bin/env python3
"""PyTorch programs on a GPU under `spillway run`: does each work, and compute the same?

Runs the stages that are named, or all, each program in a process of its own with a time limit, and
prints a line for each. A stage that fails does not stop the others; a program that is stuck is
ended, after its Python stacks and what its threads wait for have been printed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("SPILLWAY_MODULE_NAMES", "0")  # see train.py

FOLDER = pathlib.Path(__file__).resolve().parent
CHILDREN = FOLDER / "first_children.py"
MIB, GIB = 1 << 20, 1 << 30


class Failure(Exception):
    pass


class Runner:
    def __init__(self, options):
        self.options = options
        self.failed = 0

    def command(self, name, arguments, tiers):
        child = [sys.executable, str(CHILDREN), name, *map(str, arguments)]
        if tiers is None:
            return child, None
        record = tempfile.NamedTemporaryFile(suffix=".json", delete=False)
        return [self.options.spillway, "run", "--device", "cuda", "--json", record.name, *tiers,
                "--", *child], record.name

    def run(self, name, *arguments, tiers=None, environment=None):
        """Returns what the program printed, and Spillway's record of it."""
        command, record = self.command(name, arguments, tiers)
        limit = self.options.limit
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(
                command, stdout=out, stderr=err, start_new_session=True,
                env={**os.environ, "FIRST_PROGRAMS_STACKS_AFTER": str(limit * 0.8),
                     **(environment or {})})
            try:
                process.wait(limit)
                stuck = ""
            except subprocess.TimeoutExpired:
                stuck = threads_of_group(process.pid)
                os.killpg(process.pid, 9)
                process.wait()
            out.seek(0)
            err.seek(0)
            printed, said = out.read(), err.read()
        if stuck or process.returncode != 0:
            how = f"stuck for {limit} s" if stuck else f"exit status {process.returncode}"
            raise Failure(f"{how}\n{tail(printed)}{tail(said, 60)}{stuck}")
        for line in said.splitlines():
            if line.startswith("spillway:"):
                print("    " + line)
        records = read_records(record) if record else {}
        return json.loads(printed.splitlines()[-1]), records

    def stage(self, title, body):
        begin = time.monotonic()
        try:
            said, fine = body(), True
        except Failure as error:
            said, fine = str(error), False
        except Exception as error:  # a stage of ours that is wrong must not stop the rest
            said, fine = f"{type(error).__name__}: {error}", False
        self.failed += not fine
        print(f"{'ok  ' if fine else 'FAIL'} {title}: {said} [{time.monotonic() - begin:.1f} s]",
              flush=True)


def tail(text, lines=15):
    kept = text.splitlines()[-lines:]
    return "".join(f"      | {line}\n" for line in kept)


def threads_of_group(group):
    """What each thread of a stuck program and its children waits for."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) != group:
                continue
            for task in (process / "task").iterdir():
                name = (task / "comm").read_text().strip()
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                waits = (task / "wchan").read_text()
                found.append(f"      | {process.name}/{task.name} {name}: {state} {waits}\n")
        except OSError:
            continue
    return "".join(found)


def read_records(path):
    text = pathlib.Path(path).read_text()
    os.unlink(path)
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    return max(lines, key=lambda record: record.get("launches", 0), default={})


def moved(record):
    routes = record.get("moved_bytes", {})
    inward, out = routes.get("host_to_device", 0), routes.get("device_to_host", 0)
    return (f"moved {inward / GIB:.2f} GiB in, {out / GIB:.2f} out, "
            f"stalled {record.get('stalled_s', 0):.2f} of {record.get('elapsed_s', 0):.2f} s")


def right(result):
    if result.get("wrong"):
        raise Failure(f"{result['wrong']} wrong")


def budget(bytes_, host_bytes, policy):
    return ["--device-memory", f"{int(bytes_) // MIB}MiB", "--host-memory",
            f"{int(host_bytes) // MIB}MiB", "--policy", policy]


def tensors(runner):
    for policy in runner.options.policies:
        def body():
            result, record = runner.run("tensors", tiers=budget(1 * GIB, 8 * GIB, policy))
            right(result)
            return moved(record)
        runner.stage(f"tensors, 2.5 of 1 GiB, {policy}", body)


def losses(runner):
    reference = {}

    def plain():
        reference.update(runner.run("losses")[0])
        again = runner.run("losses")[0]
        if (again["losses"], again["hash"]) != (reference["losses"], reference["hash"]):
            raise Failure("plain PyTorch differs from itself")
        return f"peak {reference['peak_bytes'] / GIB:.2f} GiB, {reference['seconds']:.2f} s"

    runner.stage("losses, plain PyTorch", plain)
    if "peak_bytes" not in reference:
        return
    for percent in runner.options.percent:
        for policy in runner.options.policies:
            def body():
                peak = reference["peak_bytes"]
                result, record = runner.run("losses",
                                            tiers=budget(peak * percent / 100, 3 * peak, policy))
                for step, (a, b) in enumerate(zip(reference["losses"], result["losses"])):
                    if a != b:
                        raise Failure(f"the loss of step {step} differs: {a} and {b}")
                if reference["hash"] != result["hash"]:
                    raise Failure("the same losses, other parameters")
                return f"same bits, {result['seconds']:.2f} s, {moved(record)}"
            runner.stage(f"losses, {percent} % of the peak, {policy}", body)


def memory(runner):
    def body():
        result, _ = runner.run("memory", 2 * GIB, tiers=budget(2 * GIB, 6 * GIB, "lookahead"))
        return f"out of memory after {result['gibibytes_before_out_of_memory']} GiB"

    runner.stage("memory functions", body)


def single(name, budget_bytes, host_bytes=16 * GIB):
    def run(runner):
        def body():
            result, record = runner.run(name, tiers=budget(budget_bytes, host_bytes,
                                                           runner.options.policy))
            right(result)
            return moved(record)
        runner.stage(name, body)
    return run


def same_bits(name, fraction):
    """Under a budget against without one."""
    def run(runner):
        def body():
            expected, _ = runner.run(name)
            result, record = runner.run(
                name, tiers=budget(expected["peak_bytes"] * fraction,
                                   3 * expected["peak_bytes"], runner.options.policy))
            for key in ("losses", "hash"):
                if expected[key] != result[key]:
                    raise Failure(f"other {key} than without a budget")
            return f"same bits, {moved(record)}"
        runner.stage(f"{name}, {fraction:.0%} of the peak", body)
    return run


def fits(runner):
    """Step time when everything fits: processes that all live, one running at a time, in turn."""
    def body():
        rounds = 6
        set_ups = {"plain": None, "plain again": None,
                   "spillway": budget(20 * GIB, 20 * GIB, runner.options.policy)}
        times, processes = {name: [] for name in set_ups}, {}
        try:
            for name, tiers in set_ups.items():
                command, _ = runner.command("serve", [rounds], tiers)
                processes[name] = subprocess.Popen(command, stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE, text=True,
                                                   start_new_session=True)
                if processes[name].stdout.readline().strip() != "ready":
                    raise Failure(f"{name} did not start")
            for number in range(rounds):
                order = list(set_ups) if number % 2 == 0 else list(reversed(set_ups))
                for name in order:
                    processes[name].stdin.write("\n")
                    processes[name].stdin.flush()
                    times[name].append(float(processes[name].stdout.readline()))
            for process in processes.values():
                process.communicate(timeout=60)
        finally:
            for process in processes.values():
                if process.poll() is None:
                    os.killpg(process.pid, 9)
        ratios = {name: statistics.median(a / b for a, b in zip(times[name], times["plain"]))
                  for name in set_ups}
        return ", ".join(f"{name} {statistics.median(times[name]):.2f} ms ({ratios[name]:.3f})"
                         for name in set_ups)
    runner.stage("step time when everything fits", body)


STAGES = {
    "tensors": tensors,
    "losses": losses,
    "memory": memory,
    "streams": single("streams", 512 * MIB),
    "loader": single("loader", 256 * MIB),
    "save": single("save", 512 * MIB),
    "lists": single("lists", 512 * MIB),
    "graphs": single("graphs", 1 * GIB),
    "convolutions": single("convolutions", 2 * GIB),
    "autocast": same_bits("autocast", 0.5),
    "checkpointing": same_bits("checkpointing", 0.5),
    "compiled": single("compiled", 1 * GIB),
    "fits": fits,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", choices=[*STAGES, []], help="all by default")
    parser.add_argument("--spillway", default=str(FOLDER.parent.parent / "build" / "spillway"))
    parser.add_argument("--limit", type=float, default=90, help="seconds for each program")
    parser.add_argument("--percent", type=lambda text: [int(x) for x in text.split(",")],
                        default=[100, 80, 50, 35], help="of the peak, for losses")
    parser.add_argument("--policies", type=lambda text: text.split(","),
                        default=["base_uvm", "deepum", "lookahead"])
    parser.add_argument("--policy", default="lookahead", help="where only one is tried")
    options = parser.parse_args()
    runner = Runner(options)
    for name in options.stages or STAGES:
        STAGES[name](runner)
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
