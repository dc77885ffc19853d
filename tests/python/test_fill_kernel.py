"""The kernel that stands for a memset (src/front/cuda/fill_ptx.cc), run instruction by instruction:
without a GPU nothing else does."""

import pathlib
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).parents[2] / "src/front/cuda/fill_ptx.cc"
PTX = re.search(r'R"ptx\((.*?)\)ptx"', SOURCE.read_text(), re.S).group(1)
BITS = {".u8": 8, ".u32": 32, ".b32": 32, ".u64": 64, ".b64": 64}


def program():
    """The instructions as (guard, operation, operands), and where each label stands."""
    body = PTX[PTX.index("{") + 1 : PTX.rindex("}")]
    instructions, labels = [], {}
    for line in filter(None, map(str.strip, body.splitlines())):
        if line.startswith(".reg"):
            continue
        if label := re.fullmatch(r"(\w+):", line):
            labels[label.group(1)] = len(instructions)
            continue
        guard, operation, operands = re.fullmatch(r"(?:@(%\w+) )?([\w.]+)\s*(.*);", line).groups()
        words = re.findall(r"[%\w.-]+", operands)
        instructions.append((guard, operation.split("."), words))
    return instructions, labels


def run_thread(instructions, labels, parameters, special, memory):
    registers = dict(special)

    def value(word):
        return registers[word] if word.startswith("%") else int(word)

    at = 0
    for _ in range(1_000_000):
        guard, (name, *kinds), words = instructions[at]
        at += 1
        if guard and not registers[guard]:
            continue
        mask = (1 << BITS.get("." + kinds[-1], 64) if kinds else 1) - 1
        if name == "ret":
            return
        if name == "bra":
            at = labels[words[0]]
        elif name == "ld":
            registers[words[0]] = parameters[words[1]] & mask
        elif name == "st":
            address = value(words[0])
            each = BITS["." + kinds[-1]] // 8
            assert address % (each * len(words[1:])) == 0, "an address that is not aligned"
            for i, word in enumerate(words[1:]):
                for j in range(each):
                    memory[address + each * i + j] = value(word) >> 8 * j & 0xFF
        elif name == "setp":
            a, b = value(words[1]), value(words[2])
            registers[words[0]] = {"ge": a >= b, "lt": a < b, "gt": a > b}[kinds[0]]
        elif name == "mul":
            assert kinds == ["wide", "u32"]
            registers[words[0]] = value(words[1]) * value(words[2])
        else:
            operands = [value(word) for word in words[1:]]
            registers[words[0]] = {
                "mov": lambda a: a,
                "cvt": lambda a: a & (1 << BITS["." + kinds[0]]) - 1,
                "add": lambda a, b: a + b,
                "and": lambda a, b: a & b,
                "shl": lambda a, b: a << b,
                "shr": lambda a, b: a >> b,
                "max": max,
                "min": min,
            }[name](*operands) & (mask if name != "cvt" else (1 << 64) - 1)
    raise AssertionError("it does not end")


@pytest.mark.parametrize("blocks, threads", [(1, 1), (1, 3), (2, 4), (5, 8)])
def test_it_writes_what_it_is_told_and_nothing_else(blocks, threads):
    instructions, labels = program()
    base = 0x7F0000000000
    cases = [(0, 16), (0, 1), (15, 1), (15, 2), (3, 10), (1, 15), (0, 200), (7, 201), (16, 33)]
    for start, size in [(base + start, size) for start, size in cases] + [(base + 4, 4)]:
        memory = {}
        parameters = {"param_to": start, "param_bytes": size, "param_pattern": 0x84030281}
        for block in range(blocks):
            for thread in range(threads):
                special = {
                    "%nctaid.x": blocks,
                    "%ctaid.x": block,
                    "%ntid.x": threads,
                    "%tid.x": thread,
                }
                run_thread(instructions, labels, parameters, special, memory)
        assert memory == {at: 0x84030281 >> 8 * (at % 4) & 0xFF for at in range(start, start + size)}


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no CUDA toolkit")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_toolkit_takes_it(tmp_path, architecture):
    source = tmp_path / "fill.ptx"
    source.write_text(PTX)
    subprocess.run(
        ["ptxas", f"-arch={architecture}", str(source), "-o", str(tmp_path / "fill.cubin")], check=True
    )
