"""What torch.compile's Triton kernels do with each of their parameters, told when one is loaded.

Inductor names a kernel's parameters by what it does with them: through in_ptr0 it only reads,
through out_ptr0 it only writes, through in_out_ptr0 both. The driver sees none of that, so without
this everything that such a kernel is given counts as written. The preloaded library is told by

    void spillway_kernel(unsigned long long function, const char* name, const char* roles);

with a letter for each parameter, "r" only read, "." anything else; or NULL where nothing is known,
and before the function ends. What is told here raises nothing.
"""

import ctypes
import re

_INDUCTORS = re.compile(r"triton_(poi|red|per)_")
_READ = re.compile(r"in_ptr\d+$")


def roles(kernel, names):
    """One letter for each parameter; "" where the names are not Inductor's own."""
    if not _INDUCTORS.match(kernel):
        return ""
    return "".join("r" if _READ.match(name) else "." for name in names)


def _index(key, names):
    return names.index(key) if isinstance(key, str) else key[0] if isinstance(key, tuple) else key


def given(names, signature, constants):
    """The parameters that the compiled kernel has: Triton leaves out what is constant."""
    types = {_index(key, names): kind for key, kind in signature.items()}
    left_out = {_index(key, names) for key in constants}
    return [names[i] for i in sorted(types) if types[i] != "constexpr" and i not in left_out]


def _of_static_launcher(kernel):
    left_out = set(kernel.full_constexprs)
    names = [name for i, name in enumerate(kernel.arg_names)
             if i not in left_out and i not in kernel.declared_constexprs]
    return kernel.name, names if len(names) == len(kernel.arg_tys) else []


def _of_compiled_kernel(kernel):
    source = kernel.src
    return kernel.name, given(list(source.fn.arg_names), source.signature,
                              getattr(source, "constants", {}))


def _tell_function():
    """The library's; None where there is none."""
    try:
        tell = ctypes.PyDLL(None).spillway_kernel
    except AttributeError:
        return None
    tell.argtypes = [ctypes.c_ulonglong, ctypes.c_char_p, ctypes.c_char_p]
    tell.restype = None
    return tell


def _after(kind, method, names_of, tell):
    """Tells of a kernel once `method` of its class has loaded it."""
    original = getattr(kind, method)

    def loads(self, *arguments, **options):
        before = self.function
        result = original(self, *arguments, **options)
        if self.function != before and isinstance(self.function, int):
            tell(self.function, *_said(self, names_of))
        return result

    setattr(kind, method, loads)


def _said(kernel, names_of):
    try:
        name, names = names_of(kernel)
        said = roles(name, names)
        return name.encode(), said.encode() if said else None
    except Exception:
        return b"", None  # it stays a kernel of which nothing is known


def _before(kind, method, tell):
    """Tells that a kernel ends with `method` of its class."""
    original = getattr(kind, method, None)
    if original is None:
        return

    def ends(self, *arguments, **options):
        if isinstance(self.function, int):
            tell(self.function, b"", None)
        return original(self, *arguments, **options)

    setattr(kind, method, ends)


def follow_static_launcher(module):
    """Of torch._inductor.runtime, under either of its names."""
    tell = _tell_function()
    kind = getattr(module, "StaticallyLaunchedTritonKernel", None) or getattr(
        module, "StaticallyLaunchedCudaKernel", None)
    if tell is not None and kind is not None:
        _after(kind, "load_kernel", _of_static_launcher, tell)
        _before(kind, "close", tell)


def follow_triton(module):
    """Of triton.compiler.compiler."""
    tell = _tell_function()
    if tell is not None:
        _after(module.CompiledKernel, "_init_handles", _of_compiled_kernel, tell)
