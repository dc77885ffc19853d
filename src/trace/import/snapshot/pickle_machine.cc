// The instructions of a pickle that make data, each with its limits. Layer: trace.
#include <string>

#include "trace/import/snapshot/pickle.h"
#include "trace/import/snapshot/pickle_bytes.h"
#include "trace/import/snapshot/pickle_stack.h"
#include "trace/limits.h"

namespace spillway {
namespace {

// Instructions that a person may have heard of, for messages.
std::string_view instruction(unsigned char code) {
  switch (code) {
    case 'c':
      return " (GLOBAL)";
    case 0x93:
      return " (STACK_GLOBAL)";
    case 'R':
      return " (REDUCE)";
    case 'b':
      return " (BUILD)";
    case 'i':
      return " (INST)";
    case 'o':
      return " (OBJ)";
    case 0x81:
      return " (NEWOBJ)";
    case 0x92:
      return " (NEWOBJ_EX)";
    default:
      return "";
  }
}

}  // namespace

class PickleMachine {
 public:
  explicit PickleMachine(ByteSource& source) : bytes_(source) {}

  Result<Pickle> run() {
    if (bytes_.byte() != 0x80) {
      fail("not a pickle of protocol 2 to 5");
    } else if (const unsigned protocol = bytes_.byte(); protocol < 2 || protocol > 5) {
      fail(fmt::format("protocol {}; this program reads 2 to 5", protocol));
    }
    while (good() && !stopped_) {
      stack_.instruction_at(bytes_.offset());
      step(bytes_.byte());
    }
    if (good() && !bytes_.at_end()) {
      stack_.instruction_at(bytes_.offset());
      fail("something follows the end of the pickle");
    }
    if (!bytes_.status()) {
      return tl::unexpected(bytes_.status().error());
    }
    return stack_.take();
  }

 private:
  [[nodiscard]] bool good() const { return stack_.good() && bytes_.status().has_value(); }
  void fail(std::string_view what) { stack_.fail(what); }

  void step(unsigned char code) {
    if (good() && !number(code) && !text(code) && !collection(code) && !memory(code) &&
        code != 0x95) {
      fail(
          fmt::format("instruction 0x{:02x}{}: a memory snapshot is data alone, and this is not "
                      "run",
                      code, instruction(code)));
    }
    if (code == 0x95) {  // FRAME: how much could be read at once
      bytes_.number(8);
    }
  }

  bool number(unsigned char code) {
    switch (code) {
      case 'N':
        stack_.make(PickleKind::kNone, 0);
        return true;
      case 0x88:
      case 0x89:
        stack_.make(PickleKind::kFlag, code == 0x88 ? 1 : 0);
        return true;
      case 'J':
        stack_.make(PickleKind::kInteger, static_cast<std::int32_t>(bytes_.number(4)));
        return true;
      case 'K':
        stack_.make(PickleKind::kInteger, static_cast<std::int64_t>(bytes_.number(1)));
        return true;
      case 'M':
        stack_.make(PickleKind::kInteger, static_cast<std::int64_t>(bytes_.number(2)));
        return true;
      case 0x8a:
        long_integer();
        return true;
      case 'G':
        bytes_.number(8);
        stack_.make(PickleKind::kReal, 0);  // nothing that is read here is one
        return true;
      default:
        return false;
    }
  }

  // Two's complement, the lowest byte first. More than 64 bits count as a real number.
  void long_integer() {
    const auto length = static_cast<std::size_t>(bytes_.number(1));
    const std::string digits = bytes_.take(length);
    if (length > sizeof(std::int64_t) || digits.size() != length) {
      stack_.make(PickleKind::kReal, 0);
      return;
    }
    const bool negative = length > 0 && (static_cast<unsigned char>(digits.back()) & 0x80U) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = length; i-- > 0;) {
      value = (value << 8U) | static_cast<unsigned char>(digits[i]);
    }
    stack_.make(PickleKind::kInteger, static_cast<std::int64_t>(value));
  }

  bool text(unsigned char code) {
    const std::size_t width = code == 0x8c ? 1 : code == 'X' ? 4 : code == 0x8d ? 8 : 0;
    if (width == 0) {
      return false;
    }
    const std::uint64_t length = bytes_.number(width);
    if (length > kMaxTextBytes) {
      fail(fmt::format("text of {} bytes; at most {} are allowed", length, kMaxTextBytes));
      return true;
    }
    stack_.make_text(bytes_.take(static_cast<std::size_t>(length)));
    return true;
  }

  bool collection(unsigned char code) {
    switch (code) {
      case '}':
        stack_.make_collection(PickleKind::kDict, {});
        return true;
      case ']':
        stack_.make_collection(PickleKind::kList, {});
        return true;
      case ')':
        stack_.make_collection(PickleKind::kTuple, {});
        return true;
      case '(':
        stack_.mark();
        return true;
      case 't':
        stack_.make_collection(PickleKind::kTuple, stack_.pop_to_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        stack_.make_collection(PickleKind::kTuple, stack_.pop(code - 0x84U));
        return true;
      case 'a':
        stack_.add_to(PickleKind::kList, stack_.pop(1));
        return true;
      case 'e':
        stack_.add_to(PickleKind::kList, stack_.pop_to_mark());
        return true;
      case 's':
        stack_.add_to(PickleKind::kDict, stack_.pop(2));
        return true;
      case 'u':
        stack_.add_to(PickleKind::kDict, stack_.pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  // What is kept to be used again, and the end.
  bool memory(unsigned char code) {
    switch (code) {
      case 'q':
        stack_.keep(bytes_.number(1));
        return true;
      case 'r':
        stack_.keep(bytes_.number(4));
        return true;
      case 0x94:
        stack_.keep_next();
        return true;
      case 'h':
        stack_.use_again(bytes_.number(1));
        return true;
      case 'j':
        stack_.use_again(bytes_.number(4));
        return true;
      case '.':
        stack_.end();
        stopped_ = true;
        return true;
      default:
        return false;
    }
  }

  PickleBytes bytes_;
  PickleStack stack_;
  bool stopped_ = false;
};

Result<Pickle> Pickle::read(ByteSource& bytes) { return PickleMachine(bytes).run(); }

}  // namespace spillway
