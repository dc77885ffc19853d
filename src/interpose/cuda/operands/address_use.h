// What a kernel may do with addresses besides using those that it is given: store them on the
// device, and use those that it finds there. By its name, which says whose code it is. Layer:
// interpose, cuda. docs/interposer.md, "Addresses that stay on the device".
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace spillway::cuda {

struct AddressUse {
  // It may store those that it is given.
  bool stores = true;
  // Otherwise the parameter that holds values, which it may store all the same.
  std::optional<std::size_t> values = std::nullopt;
  // It may write through those that it finds in memory.
  bool reaches = true;
};

// Whether it may store any.
[[nodiscard]] inline bool exposes(const AddressUse& use) {
  return use.stores || use.values.has_value();
}

// What else in the process tells whose a name is.
struct WhoIsLoaded {
  bool xla = false;  // names its kernels as anybody could
};

// Of the kernel that the compiler has given this name, and of what that says in C++. All of it
// where nothing is known.
[[nodiscard]] AddressUse address_use(std::string_view symbol, std::string_view in_words,
                                     const WhoIsLoaded& who);

// Whether a kernel of this name may be XLA's, so that it is worth it to ask whether that is loaded.
[[nodiscard]] bool may_be_of_xla(std::string_view symbol);

}  // namespace spillway::cuda
