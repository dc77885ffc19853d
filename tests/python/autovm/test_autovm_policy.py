"""AutoVM's policy on graphs that are worked out by hand. Sizes are in units, times in seconds per unit."""

import pytest

from spillway.autovm import policy
from spillway.autovm.estimate import Times, estimated_ns, tune
from spillway.autovm.policy import Insertion, Limits, Operation, Storage

UNIT = 1 << 20
ONE_UNIT_A_SECOND = float(UNIT)


def storages(**sizes):
    return [Storage(name, size * UNIT) for name, size in sizes.items()]


def moves(insertions):
    return [(one.kind, one.storage, one.position) for one in insertions]


def linear_network():
    """Figure 3.1: conv, relu, pool, fc, and their gradients in the opposite order. y1, y2, y3 are saved; y4 is
    used again at once."""
    held = storages(y1=4, y2=4, y3=2, y4=1, d4=1, d3=2, d2=4, d1=4)
    y1, y2, y3, y4, d4, d3, d2, d1 = range(8)
    return held, [
        Operation("conv", (y1,)),
        Operation("relu", (y1, y2)),
        Operation("pool", (y2, y3)),
        Operation("fc", (y3, y4)),
        Operation("loss'", (y4, d4), backward=True),
        Operation("fc'", (d4, y3, d3), backward=True),
        Operation("pool'", (d3, y2, y3, d2), backward=True),
        Operation("relu'", (d2, y1, d1), backward=True),
        Operation("conv'", (d1,), backward=True),
    ]


def test_offloads_what_is_large_and_needed_late():
    held, operations = linear_network()
    # y4 is used by loss' right after fc: distance 0. y3: fc (3) and fc' (5): 1. y2: pool (2), pool' (6): 3.
    # y1: relu (1), relu' (7): 5.
    chosen, stays = policy.choose(operations, held, Limits(2 * UNIT, 2))
    assert {number: gap.distance for number, gap in chosen.items()} == {0: 5, 1: 3}
    assert stays == [(2, "used again after 1 operations, the threshold is 2"),
                     (3, "1048576 bytes, the size threshold is 2097152")]
    assert moves(policy.offloads(operations, held, chosen)) == [("pre_evict", 0, 1), ("pre_evict", 1, 2)]


def test_figure_3_2_offloads_after_the_last_of_several_uses():
    held = storages(y=4, a=1, b=1, c=1)
    operations = [Operation("conv", (0,)), Operation("relu", (0, 1)), Operation("pool", (0, 2)),
                  Operation("later", (2, 3)), Operation("relu'", (0,), backward=True),
                  Operation("conv'", (0,), backward=True)]
    chosen, _ = policy.choose(operations, held, Limits(UNIT, 1))
    assert moves(policy.offloads(operations, held, chosen)) == [("pre_evict", 0, 2)]


def test_weights_and_outputs_stay_with_a_reason():
    held, operations = linear_network()
    held[0] = Storage("y1", 4 * UNIT, stays="a weight")
    chosen, stays = policy.choose(operations, held, Limits(2 * UNIT, 2))
    assert list(chosen) == [1] and (0, "a weight") in stays


def backward(*working_sets):
    """Operations of a backward pass, each with a storage of its own of so many units, and t behind them."""
    held = [Storage(f"w{at}", size * UNIT) for at, size in enumerate(working_sets)]
    return held, [Operation(f"op{at}", (at,), backward=True) for at in range(len(working_sets))]


def with_tensor(held, operations, name, size, use):
    held.append(Storage(name, size * UNIT))
    number = len(held) - 1
    operation = operations[use]
    operations[use] = Operation(operation.name, (*operation.uses, number), True, operation.runtime_ns)
    return number


def test_listing_3_4_prefetches_as_early_as_it_fits():
    # Device 10. t has 4 units and is used by op4. op3 needs 2, op2 6: both fit beside it. op1 needs 7: it does not.
    held, operations = backward(1, 7, 6, 2, 1)
    t = with_tensor(held, operations, "t", 4, 4)
    insertions, stays = policy.prefetches(operations, held, {t: 4}, 10 * UNIT)
    assert moves(insertions) == [("prefetch", t, 2)] and stays == []


def test_a_prefetched_tensor_counts_for_the_next_one():
    # Device 10, t and u of 4 units each, used by op3 and op4. t may begin with op0 (1 + 4). Beside t, u fits op3
    # (1 + 4 of t, its own operand) but not op2 (3 + 4 + 4).
    held, operations = backward(1, 3, 3, 1, 1)
    t = with_tensor(held, operations, "t", 4, 3)
    u = with_tensor(held, operations, "u", 4, 4)
    insertions, _ = policy.prefetches(operations, held, {t: 3, u: 4}, 10 * UNIT)
    assert moves(insertions) == [("prefetch", t, 0), ("prefetch", u, 3)]


def test_what_does_not_fit_is_paged_on_demand():
    held, operations = backward(1, 8, 1)
    t = with_tensor(held, operations, "t", 4, 2)
    insertions, stays = policy.prefetches(operations, held, {t: 2}, 10 * UNIT)
    assert insertions == []
    assert stays == [(t, "paged in on demand: it does not fit beside the working set before op2")]


def known(operations, seconds):
    return [Operation(one.name, one.uses, one.backward, at * 1e9) for one, at in zip(operations, seconds)]


def test_listing_3_3_prefetches_as_late_as_the_copy_is_hidden():
    # A copy of 4 units takes 4 s; op3 runs 1 s, op2 2 s, op1 3 s: with op1 6 s are covered.
    held, operations = backward(1, 1, 1, 1, 1)
    t = with_tensor(held, operations, "t", 4, 4)
    operations = known(operations, [9, 3, 2, 1, 1])
    insertions, _ = policy.prefetches(operations, held, {t: 4}, 10 * UNIT, ONE_UNIT_A_SECOND)
    assert moves(insertions) == [("prefetch", t, 1)]
    # Where one of those three needs 7, it is not prefetched at all (step 3); listing 3.4 would begin behind it.
    held, operations = backward(1, 7, 1, 1, 1)
    t = with_tensor(held, operations, "t", 4, 4)
    operations = known(operations, [9, 3, 2, 1, 1])
    assert policy.prefetches(operations, held, {t: 4}, 10 * UNIT, ONE_UNIT_A_SECOND)[0] == []


def test_figures_3_4_and_3_5_what_is_used_first_begins_first():
    # u (used by op5) takes 8 s and begins with op1; t (op4) takes 1 s and would begin with op3.
    held, operations = backward(1, 1, 1, 1, 1, 1)
    t = with_tensor(held, operations, "t", 1, 4)
    u = with_tensor(held, operations, "u", 8, 5)
    operations = known(operations, [2, 2, 2, 2, 2, 2])
    first_uses = {t: 4, u: 5}
    insertions, _ = policy.prefetches(operations, held, first_uses, 20 * UNIT, ONE_UNIT_A_SECOND)
    assert moves(insertions) == [("prefetch", t, 1), ("prefetch", u, 1)]
    # Where t does not fit there (op1 needs 2, and 8 for u, of 10), u begins later instead.
    held[1] = Storage("w1", 2 * UNIT)
    insertions, _ = policy.prefetches(operations, held, first_uses, 10 * UNIT, ONE_UNIT_A_SECOND)
    assert moves(insertions) == [("prefetch", t, 3), ("prefetch", u, 3)]


def test_nothing_is_done_where_everything_fits():
    held, operations = linear_network()
    # Most is alive at relu' : y1 4, d2 4, d1 4, beside nothing else; at pool': y1, y2 8, y3 2, d3 2, d2 4: 16.
    assert policy.peak_bytes(operations, held) == 16 * UNIT
    assert policy.make_plan(operations, held, 16 * UNIT, Limits(UNIT, 1)).insertions == []
    assert policy.make_plan(operations, held, 16 * UNIT - 1, Limits(UNIT, 1)).insertions != []


def test_a_graph_without_a_backward_pass_moves_over_its_longest_pause():
    held = storages(skip=4, a=2, b=2, c=2)
    operations = [Operation("first", (0,)), Operation("down", (0, 1)), Operation("deep", (1, 2)),
                  Operation("deeper", (2, 3)), Operation("join", (3, 0)), Operation("end", (0,))]
    plan = policy.make_plan(operations, held, 7 * UNIT, Limits(UNIT, 2))
    # Beside the 4 of skip, deeper (2 + 2) does not fit in 7: paged in on demand.
    assert moves(plan.insertions) == [("pre_evict", 0, 1)]
    assert plan.stays == [(0, "paged in on demand: it does not fit beside the working set before join")]
    held[2] = Storage("b", UNIT)
    # deeper now needs 3: 3 + 4 fit; deep needs 2 + 1, and comes right behind the pre-eviction.
    plan = policy.make_plan(operations, held, 7 * UNIT, Limits(UNIT, 2))
    assert plan.insertions == [] and policy.peak_bytes(operations, held) == 7 * UNIT
    held[1] = Storage("a", 3 * UNIT)  # 4 + 3 + 1 at deep
    plan = policy.make_plan(operations, held, 7 * UNIT, Limits(UNIT, 2))
    assert moves(plan.insertions) == [("pre_evict", 0, 1), ("prefetch", 0, 3)]


# --- Estimates -----------------------------------------------------------------------------------------------------

TIMES = Times(memory_bytes_per_s=ONE_UNIT_A_SECOND, link_bytes_per_s=ONE_UNIT_A_SECOND)


def seconds(operations, held, plan, budget):
    return round(estimated_ns(operations, held, plan, budget * UNIT, TIMES) / 1e9, 3)


def two_layers():
    """a is made (4 s), b is made (4 s), c is made while nothing moves (8 s), a is used (1 s beside)."""
    held = storages(a=4, b=4, c=4)
    operations = [Operation("a", (0,), False, 4e9), Operation("b", (1,), False, 4e9),
                  Operation("c", (2,), True, 8e9), Operation("c'", (2,), True, 8e9),
                  Operation("a'", (0,), True, 1e9)]
    return held, operations


def test_what_does_not_fit_waits_for_the_link():
    held, operations = two_layers()
    # b dies with its only use. Device 12: all fit, and the run times add up: 25 s.
    assert seconds(operations, held, policy.Plan(), 12) == 25
    # Device 4: b waits 4 s for a to be copied down, c finds b's place empty, and a' pages a in: 4 s of link
    # at 0.72 of its speed.
    assert seconds(operations, held, policy.Plan(), 4) == round(25 + 4 + 4 / 0.72, 3)


def test_a_pre_eviction_hides_the_copy_and_a_prefetch_the_way_back():
    held, operations = two_layers()
    # Device 8: a and b fit; then c takes b's place. Nothing waits.
    assert seconds(operations, held, policy.Plan(), 8) == 25
    held[1] = Storage("b", 8 * UNIT)
    operations[1] = Operation("b", (1,), False, 4e9)
    # Now b (8) needs all of the device and a must leave: 4 s, and comes back: 4 / 0.72 s.
    assert seconds(operations, held, policy.Plan(), 8) == round(25 + 4 + 4 / 0.72, 3)
    # Brought back before c', beside c, it is there in time.
    plan = policy.Plan([Insertion("pre_evict", 0, 0, ""), Insertion("prefetch", 0, 3, "")])
    assert seconds(operations, held, plan, 8) == 29
    # With a pause between a and b, the way out is hidden as well.
    operations.insert(1, Operation("pause", (2,), False, 4e9))
    plan = policy.Plan([Insertion("pre_evict", 0, 0, ""), Insertion("prefetch", 0, 4, "")])
    assert seconds(operations, held, plan, 12) == 29


def test_the_threshold_is_the_one_with_the_shortest_estimate():
    held, operations = linear_network()
    limits, tried = tune(operations, held, 12 * UNIT, Limits(UNIT, 1), TIMES)
    # Sizes of candidates: y3 2, y1 and y2 4; and "nothing moves". Between the uses of y3, y2 and y1 are 1, 3 and 5
    # operations.
    assert [(one.size_bytes // UNIT, one.distance) for one, _ in tried] == [
        (2, 1), (2, 3), (2, 5), (4, 3), (4, 5), (4, 1)]
    best = min(estimate for _, estimate in tried)
    assert limits == [one for one, estimate in tried if estimate == best][-1]  # of equals the last
    limits, tried = tune(operations, held, 12 * UNIT, Limits(UNIT, 1), TIMES, tunes_distance=False)
    assert [(one.size_bytes, one.distance) for one, _ in tried] == [
        (2 * UNIT, 1), (4 * UNIT, 1), (4 * UNIT + 1, 1)]


def test_of_tensors_of_one_size_as_few_leave_as_must():
    """Four layers save 4 units each, in 4 s each way; the copies take 1 s each way, and all of the processor's time.
    Device 12: of 16 units 4 must leave while the last layer runs forward."""
    held = storages(a=4, b=4, c=4, d=4)
    operations = [Operation(name, (at,), False, 4e9) for at, name in enumerate("abcd")]
    operations += [Operation(name + "'", (3 - at,), True, 4e9) for at, name in enumerate("dcba")]
    times = Times(link_bytes_per_s=4 * ONE_UNIT_A_SECOND, copying_share=1)
    limits, tried = tune(operations, held, 12 * UNIT, Limits(UNIT, 1), times)
    # Distances of c, b, a: 2, 4, 6 (d is needed at once). Each that leaves costs 1 s, but d takes the place of the
    # first alone, so only a comes back, for another. If nothing leaves ahead, d waits for the copy, 1 s, and a' for
    # the way back, at 0.72 of the link's speed.
    assert (limits.size_bytes, limits.distance) == (4 * UNIT, 6)
    assert [(one.size_bytes, one.distance, round(estimate / 1e9, 3)) for one, estimate in tried] == [
        (4 * UNIT, 2, 36), (4 * UNIT, 4, 35), (4 * UNIT, 6, 34),
        (4 * UNIT + 1, 1, round(32 + 1 + 1 / 0.72, 3))]


def test_nothing_to_tune():
    held, operations = linear_network()
    limits, tried = tune(operations, held, UNIT, Limits(64 * UNIT, 1), TIMES)
    assert limits.size_bytes == 64 * UNIT and len(tried) == 1


@pytest.mark.parametrize("size,expected", [("20GiB", 20 << 30), ("1.5 MiB", 3 << 19), ("7", 7), (9, 9),
                                           ("2kB", 2000)])
def test_sizes(size, expected):
    from spillway.autovm.sizes import parse_bytes

    assert parse_bytes(size) == expected


@pytest.mark.parametrize("size", ["", "GiB", "-1", "1 XB", True, None])
def test_what_is_no_size(size):
    from spillway.autovm.sizes import parse_bytes

    with pytest.raises(ValueError, match="is not a size; write for example 40GiB"):
        parse_bytes(size)
