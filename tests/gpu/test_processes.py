"""Several processes and several GPUs: each process has its device, and its budget there."""

import pytest

GIB, MIB = 1 << 30, 1 << 20


def test_one_process_may_use_nccl(run):
    run("processes.py", "collectives", 1, device=512 * MIB)


@pytest.mark.needs(devices=2)
def test_collectives_find_their_buffers(run):
    run("processes.py", "collectives", device=512 * MIB)


@pytest.mark.needs(devices=2)
@pytest.mark.parametrize("name", ["parallel", "sharded"])
def test_training_on_two_devices_is_the_same_bits(same_bits, name):
    same_bits("processes.py", name, percent=[200, 60])


@pytest.mark.needs(devices=2)
def test_peers_copy(run):
    run("processes.py", "peers", device=512 * MIB)


def test_memory_is_handed_to_another_process_and_back(same_bits):
    same_bits("processes.py", "handed_over", percent=[200, 60])
