"""A kernel's PTX run instruction by instruction, as far as our own kernels go: without a GPU nothing
else does. The threads of a warp run in lock step, warps one after the other from barrier to barrier."""

import pathlib
import re
import subprocess

SOURCES = pathlib.Path(__file__).parents[2] / "src/interpose/cuda/kernels"
BITS = {"u8": 8, "u32": 32, "b32": 32, "u64": 64, "b64": 64}
WARP = 32


def ptx_of(name):
    """What stands in a source file."""
    return re.search(r'R"ptx\((.*?)\)ptx"', (SOURCES / name).read_text(), re.S).group(1)


class Kernel:
    def __init__(self, ptx):
        """Its instructions as (guard, operation, operands), and where each label stands."""
        self.instructions, self.labels = [], {}
        body = ptx[ptx.index("{") + 1 : ptx.rindex("}")]
        for line in filter(None, map(str.strip, body.splitlines())):
            if line.startswith((".reg", ".shared")):
                continue
            if label := re.fullmatch(r"(\w+):", line):
                self.labels[label.group(1)] = len(self.instructions)
                continue
            guard, operation, operands = re.fullmatch(r"(?:@(%\w+) )?([\w.]+)\s*(.*);", line).groups()
            words = re.findall(r"\{[^}]*\}|[%\w.-]+", operands)
            self.instructions.append((guard, operation.split("."), words))

    def run(self, blocks, threads, parameters, memory, backwards=False):
        """Memory is bytes by address; to read one that is not there is an error. `backwards` has
        blocks, warps and threads begin in the opposite order: to a right kernel it is the same."""
        order = (lambda all: list(all)[::-1]) if backwards else list
        for block in order(range(blocks)):
            shared = {}
            warps = []
            for first in order(range(0, threads, WARP)):
                lanes = []
                for thread in range(first, min(first + WARP, threads)):
                    special = {
                        "%nctaid.x": blocks,
                        "%ctaid.x": block,
                        "%ntid.x": threads,
                        "%tid.x": thread,
                    }
                    lanes.append(self._thread(special, parameters, memory, shared))
                warps.append(_warp(lanes, order(range(len(lanes)))))
            while warps:
                left = [warp for warp in warps if next(warp, "done") == "barrier"]
                assert len(left) in (0, len(warps)), "a barrier that not all threads come to"
                warps = left

    def _thread(self, special, parameters, memory, shared):
        """Yields "barrier", ("shuffle", value, mask) for the value of that other lane, and "end"."""
        registers = dict(special)

        def value(word):
            return registers[word] if word.startswith("%") else int(word, 0)

        def each(word):
            return re.findall(r"%\w+", word)

        at = 0
        for _ in range(1_000_000):
            guard, (name, *kinds), words = self.instructions[at]
            at += 1
            if guard and not registers[guard]:
                continue
            bits = BITS.get(kinds[-1], 64) if kinds else 1
            mask = (1 << bits) - 1
            if name == "ret":
                break
            if name == "bra":
                at = self.labels[words[0]]
            elif name == "bar":
                yield "barrier"
            elif name == "shfl":
                assert kinds == ["sync", "bfly", "b32"] and value(words[3]) == WARP - 1
                assert value(words[4]) == (1 << WARP) - 1, "lanes that do not take part"
                registers[words[0]] = yield "shuffle", value(words[1]), value(words[2])
            elif name == "ld" and kinds[0] == "param":
                registers[words[0]] = parameters[words[1]] & mask
            elif name == "ld" and kinds[0] == "shared":
                registers[words[0]] = shared[words[1]]
            elif name == "st" and kinds[0] == "shared":
                shared[words[0]] = value(words[1]) & mask
            elif name == "red":
                assert kinds == ["shared", "add", "u64"]
                shared[words[0]] = shared[words[0]] + value(words[1]) & mask
            elif name in ("ld", "st"):
                where, what = (words[1], words[0]) if name == "ld" else (words[0], words[1])
                names = each(what) or [what]
                address, size = value(where), bits // 8
                assert address % (size * len(names)) == 0, "an address that is not aligned"
                for i, word in enumerate(names):
                    place = range(address + size * i, address + size * (i + 1))
                    if name == "ld":
                        registers[word] = int.from_bytes([memory[byte] for byte in place], "little")
                    else:
                        memory.update(zip(place, (value(word) & mask).to_bytes(size, "little")))
            elif name == "mov" and words[0].startswith("{"):
                for i, word in enumerate(each(words[0])):
                    registers[word] = value(words[1]) >> 32 * i & 0xFFFFFFFF
            elif name == "mov" and words[1].startswith("{"):
                registers[words[0]] = sum(value(word) << 32 * i for i, word in enumerate(each(words[1])))
            elif name == "setp":
                a, b = value(words[1]), value(words[2])
                registers[words[0]] = {"ge": a >= b, "lt": a < b, "gt": a > b, "eq": a == b}[kinds[0]]
            elif name == "mul" and kinds[0] == "wide":
                assert kinds == ["wide", "u32"]
                registers[words[0]] = value(words[1]) * value(words[2])
            elif name == "cvt":
                registers[words[0]] = value(words[1]) & (1 << BITS[kinds[0]]) - 1
            else:
                registers[words[0]] = {
                    "mov": lambda a: a,
                    "add": lambda a, b: a + b,
                    "mul": lambda a, b: a * b,
                    "and": lambda a, b: a & b,
                    "or": lambda a, b: a | b,
                    "xor": lambda a, b: a ^ b,
                    "shl": lambda a, b: a << b,
                    "shr": lambda a, b: a >> b,
                    "max": max,
                    "min": min,
                }[name](*map(value, words[1:])) & mask
        else:
            raise AssertionError("it does not end")
        yield "end"


def _warp(lanes, order):
    answers = [None] * len(lanes)
    while True:
        asked = [None] * len(lanes)
        for lane in order:
            asked[lane] = lanes[lane].send(answers[lane])
        answers = [None] * len(lanes)
        if all(what == "end" for what in asked):
            return
        if all(what == "barrier" for what in asked):
            yield "barrier"
        else:
            assert all(what[0] == "shuffle" for what in asked), "lanes that do not do the same"
            answers = [asked[lane ^ mask][1] for lane, (_, _, mask) in enumerate(asked)]


def assemble(ptx, architecture, folder):
    """As the toolkit does it; fails where that has anything to say."""
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    command = ["ptxas", f"-arch={architecture}", str(source), "-o", str(folder / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
