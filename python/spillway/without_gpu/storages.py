"""The device's memory: which storages are alive, how large the allocator makes them, the peak.

A storage dies when PyTorch lets go of it, which a weak reference to its Python object tells at once.
"""

import weakref

_ROUND = 512  # what PyTorch's allocator rounds sizes up to


def rounded(size):
    return max(_ROUND, -(-size // _ROUND) * _ROUND)


class Storage:
    __slots__ = ("number", "size", "written", "used", "born", "gone", "scratch",
                 "__weakref__")

    def __init__(self, number, size, born):
        self.number, self.size = number, size
        self.born = born  # how many kernels had been launched then
        self.scratch = False  # a kernel's or a library's, not a tensor's
        self.written = False  # has contents
        self.used = False  # by a kernel, in the recorded iteration
        self.gone = None  # how many kernels had been launched when it died


class Storages:
    def __init__(self, launched):
        self.alive = {}  # by the address of PyTorch's object: (weak reference, Storage)
        self.workspaces = {}
        self.count = 0
        self.bytes = self.peak = 0
        self.launched = launched

    def new(self, size):
        storage = Storage(self.count, rounded(size), self.launched())
        self.count += 1
        self.bytes += storage.size
        self.peak = max(self.peak, self.bytes)
        return storage

    def gone(self, storage):
        storage.gone = self.launched()
        self.bytes -= storage.size

    def of(self, tensor):
        """That of a tensor on the device, which is new if it has not been seen."""
        object_ = tensor.untyped_storage()
        key = object_._cdata
        known = self.alive.get(key)
        if known is not None:
            size = object_.nbytes()
            if size > known[1].size:  # resized
                self.bytes += rounded(size) - known[1].size
                known[1].size = rounded(size)
                self.peak = max(self.peak, self.bytes)
            return known[1]
        storage = self.new(object_.nbytes())

        def died(_, key=key, storage=storage):
            self.alive.pop(key, None)
            self.gone(storage)

        self.alive[key] = weakref.ref(object_, died), storage
        return storage

    def workspace(self, name, size):
        """A library's, which lives as long as the program."""
        if name not in self.workspaces:
            self.workspaces[name] = self.new(size)
            self.workspaces[name].scratch = True
        return self.workspaces[name]

    def living(self):
        return [storage for _, storage in self.alive.values()] + list(self.workspaces.values())
