// A library that a program without C++ loads for itself alone, with a standard library of its own:
// `new` is that one's, in every respect. test_wheel.py compiles it and has Python load it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>

namespace {

bool handled = false;
void handle() {
  handled = true;
  std::set_new_handler(nullptr);
}

}  // namespace

// What does not hold, or null.
extern "C" const char* plugin_check() {
  volatile std::size_t bytes = std::size_t{64} << 20U;  // volatile: it is to be allocated
  for (int i = 0; i < 4; ++i) {
    char* const memory = new char[bytes];
    std::memset(memory, i, bytes);
    delete[] memory;
  }
  bytes = PTRDIFF_MAX;
  std::set_new_handler(handle);
  bool caught = false;
  try {
    delete[] new char[bytes];
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  return !handled                          ? "the program's handler was not called"
         : !caught                         ? "no exception"
         : std::uncaught_exceptions() != 0 ? "an exception is still under way"
                                           : nullptr;
}
