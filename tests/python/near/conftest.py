"""One thread for PyTorch, where no test asks for more: idle ones spin, and tests run beside each other."""

import pytest


@pytest.fixture(autouse=True)
def one_thread():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
