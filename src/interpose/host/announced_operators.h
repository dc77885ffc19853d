// Under `spillway record`: which launches belong to an operator that says what it uses. Layer:
// interpose, host. An operator may call others inside, which say nothing (aten::relu calls
// aten::clamp_min), and what it returns it says at its end; one that is no launch itself may have
// launches inside (aten::_to_copy) or none (aten::view). One thread's.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

struct spillway_operand {  // NOLINT(readability-identifier-naming): as Python declares it
  void* address;
  std::size_t bytes;
  int writes;
};

namespace spillway::preload {

class AnnouncedOperators {
 public:
  using Operands = std::vector<spillway_operand>;

  // One says what it is given. `launched`: it is a launch itself. What the latest launch uses of
  // that is returned.
  Operands begin(bool launched, Operands operands) {
    inside_ = true;
    launched_ = launched;
    if (launched) {
      return operands;
    }
    waiting_ = std::move(operands);
    return {};
  }
  // A launch begins: whether it is part of the launch before it; otherwise what it uses is taken.
  bool launch_begins() { return inside_ && std::exchange(launched_, true); }
  Operands take() { return std::exchange(waiting_, {}); }
  // It says what it returns: what the latest launch uses of that.
  Operands end(Operands operands) {
    inside_ = false;
    waiting_.clear();
    return launched_ ? std::move(operands) : Operands();
  }

 private:
  bool inside_ = false;
  bool launched_ = false;  // it, or something in it
  Operands waiting_;
};

}  // namespace spillway::preload
