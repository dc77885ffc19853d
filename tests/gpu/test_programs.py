"""What programs on a GPU do that does not fit, and whether it is what they do alone."""

import os
import shutil

import pytest

GIB, MIB = 1 << 30, 1 << 20
POLICIES = ["base_uvm", "deepum", "lookahead", "g10"]


@pytest.mark.parametrize("policy", POLICIES)
def test_patterns_pass_through_host_memory(run, policy):
    result = run("patterns.py", "tensors", device=GIB, host=8 * GIB, policy=policy)
    assert result.moved("host_to_device") > GIB


@pytest.mark.parametrize("policy", POLICIES)
def test_patterns_pass_through_the_swap_file(run, policy):
    result = run("patterns.py", "tensors", 16, device=512 * MIB, host=256 * MIB, storage=4 * GIB,
                 policy=policy)
    assert result.moved("storage_to_device") + result.moved("storage_to_host") > 256 * MIB


@pytest.mark.parametrize("policy", POLICIES)
def test_losses_are_the_same_bits(same_bits, policy):
    same_bits("training.py", "losses", percent=[130, 80, 50, 35], policy=policy)


@pytest.mark.parametrize("name", ["lengths", "autocast", "checkpointing", "threads"])
def test_training_is_the_same_bits(same_bits, name):
    same_bits("training.py", name)


def test_memory_functions_answer_sensibly(run):
    run("patterns.py", "memory", 2 * GIB, device=2 * GIB, host=6 * GIB)


@pytest.mark.parametrize("file, name, mib", [
    ("patterns.py", "streams", 512), ("patterns.py", "loader", 256), ("patterns.py", "lists", 512),
    ("patterns.py", "graphs", 1024), ("patterns.py", "convolutions", 2048),
    ("training.py", "save", 512), ("training.py", "compiled", 1024)])
def test_what_pytorch_offers(run, file, name, mib):
    run(file, name, device=mib * MIB)


@pytest.mark.parametrize("name", [
    "shared_pool", "graphed_callables", "trees", "pools", "history", "statistics", "limits", "divided",
    "pluggable", "expandable_graph"])
def test_pytorchs_allocator(same_bits, name):
    same_bits("allocator.py", name, percent=[130, 60, 40])


def test_tensors_of_expandable_segments_move_by_themselves(same_bits):
    found = same_bits("allocator.py", "expandable", percent=[130, 60, 40])
    assert found["expandable"] == [True]
    assert "more than the device budget" not in found.said


@pytest.mark.needs("transformers")
def test_generation_with_a_static_cache(same_bits):
    same_bits("allocator.py", "static_cache", percent=[130, 60, 40])


def test_operators_find_their_operands(run):
    """What differs from itself without Spillway says nothing; all else must be the same."""
    alone, again = run("operators.py", "zoo"), run("operators.py", "zoo")
    found = run("operators.py", "zoo", device=512 * MIB)
    told = {name: digests for name, digests in alone["digests"].items()
            if again["digests"][name] == digests}
    print("differ without Spillway:", sorted(set(alone["digests"]) - set(told)))
    print("raise:", {name: both[0] for name, both in told.items() if both[0].startswith("raised")})
    assert len(told) > 50
    wrong = {name: (digests, found["digests"][name]) for name, digests in told.items()
             if found["digests"][name] != digests}
    assert not wrong


@pytest.mark.needs("transformers", "accelerate")
@pytest.mark.parametrize("name", ["trainer", "accelerated", "generation"])
def test_hugging_face(same_bits, name):
    same_bits("libraries.py", name)


@pytest.mark.needs("lightning")
def test_lightning(same_bits):
    same_bits("libraries.py", "lightning")


@pytest.mark.needs("cupy")
@pytest.mark.parametrize("name", ["cupy_arrays", "pointers", "cooperative"])
def test_kernels_of_cupy(run, name):
    run("kernels.py", name, device=512 * MIB)


@pytest.mark.needs("cupy")
def test_textures_of_arrays_work_and_of_memory_are_refused(run):
    result = run("kernels.py", "textures", device=512 * MIB)
    assert "NotSupported" in result["refused"]


@pytest.mark.needs("triton")
def test_kernels_of_triton(run):
    run("kernels.py", "triton_kernels", device=512 * MIB)


@pytest.mark.needs("jax")
def test_jax(run):
    run("kernels.py", "jax_arrays", device=512 * MIB)


@pytest.mark.skipif(shutil.which(os.environ.get("NVCC", "nvcc")) is None, reason="needs nvcc")
@pytest.mark.parametrize("name", ["kernel", "large", "pinned", "anew"])
def test_tables_of_pointers(same_bits, name):
    found = same_bits("tables.py", name)
    assert "more than the device budget" not in found.said
