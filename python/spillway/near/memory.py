"""Whether the tensors of a step lie in each other: then the order of updates decides the result, and
that order is PyTorch's."""


def storage_extent(tensor):
    """(first byte, byte after the last) of all memory that a tensor may lie in; None where that is not
    known."""
    try:
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        return (start, start + storage.nbytes()) if start != 0 else None
    except (NotImplementedError, RuntimeError):  # sparse, or no memory of its own
        return None


def overlap(written, read):
    """Whether anything that is written lies in anything else. Both: lists of extents."""
    ends_written = ends = 0
    for start, end, writes in sorted([(start, end, True) for start, end in written]
                                     + [(start, end, False) for start, end in read]):
        if start < ends_written or (writes and start < ends):
            return True
        if end > ends:
            ends = end
        if writes and end > ends_written:
            ends_written = end
    return False
