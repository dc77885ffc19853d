// The instructions of a pickle that make data, each with its limits. Layer: trace.
#include <string>
#include <unordered_map>
#include <utility>

#include "trace/import/pickle.h"
#include "trace/import/pickle_bytes.h"
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
      at_ = bytes_.offset();
      step(bytes_.byte());
    }
    if (good() && !bytes_.at_end()) {
      at_ = bytes_.offset();
      fail("something follows the end of the pickle");
    }
    if (!bytes_.status()) {
      return tl::unexpected(bytes_.status().error());
    }
    if (!status_) {
      return tl::unexpected(status_.error());
    }
    return std::move(pickle_);
  }

 private:
  using Id = Pickle::Id;

  [[nodiscard]] bool good() const { return status_.has_value() && bytes_.status().has_value(); }
  void fail(std::string_view what) {
    if (status_) {
      status_ = make_error(ErrorCode::kInvalidInput, "byte {}: {}", at_, what);
    }
  }

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
        make(PickleKind::kNone, 0);
        return true;
      case 0x88:
      case 0x89:
        make(PickleKind::kFlag, code == 0x88 ? 1 : 0);
        return true;
      case 'J':
        make(PickleKind::kInteger, static_cast<std::int32_t>(bytes_.number(4)));
        return true;
      case 'K':
        make(PickleKind::kInteger, static_cast<std::int64_t>(bytes_.number(1)));
        return true;
      case 'M':
        make(PickleKind::kInteger, static_cast<std::int64_t>(bytes_.number(2)));
        return true;
      case 0x8a:
        long_integer();
        return true;
      case 'G':
        bytes_.number(8);
        make(PickleKind::kReal, 0);  // nothing that is read here is one
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
      make(PickleKind::kReal, 0);
      return;
    }
    const bool negative = length > 0 && (static_cast<unsigned char>(digits.back()) & 0x80U) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = length; i-- > 0;) {
      value = (value << 8U) | static_cast<unsigned char>(digits[i]);
    }
    make(PickleKind::kInteger, static_cast<std::int64_t>(value));
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
    const Result<std::uint32_t> number =
        pickle_.texts_.add(bytes_.take(static_cast<std::size_t>(length)));
    if (!number) {
      fail(number.error().message);
      return true;
    }
    make(PickleKind::kText, *number);
    return true;
  }

  bool collection(unsigned char code) {
    switch (code) {
      case '}':
        make_collection(PickleKind::kDict, {});
        return true;
      case ']':
        make_collection(PickleKind::kList, {});
        return true;
      case ')':
        make_collection(PickleKind::kTuple, {});
        return true;
      case '(':
        count_reference();
        marks_.push_back(stack_.size());
        return true;
      case 't':
        make_collection(PickleKind::kTuple, pop_to_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        make_collection(PickleKind::kTuple, pop(code - 0x84U));
        return true;
      case 'a':
        add_to(PickleKind::kList, pop(1));
        return true;
      case 'e':
        add_to(PickleKind::kList, pop_to_mark());
        return true;
      case 's':
        add_to(PickleKind::kDict, pop(2));
        return true;
      case 'u':
        add_to(PickleKind::kDict, pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  // What is kept to be used again, and the end.
  bool memory(unsigned char code) {
    switch (code) {
      case 'q':
        keep(bytes_.number(1));
        return true;
      case 'r':
        keep(bytes_.number(4));
        return true;
      case 0x94:
        keep(memo_.size());
        return true;
      case 'h':
        use_again(bytes_.number(1));
        return true;
      case 'j':
        use_again(bytes_.number(4));
        return true;
      case '.':
        if (stack_.size() != 1 || !marks_.empty()) {
          fail("the pickle ends with something else than one value");
          return true;
        }
        pickle_.root_ = stack_.back();
        stopped_ = true;
        return true;
      default:
        return false;
    }
  }

  void keep(std::uint64_t number) {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) {
      fail("nothing to keep");
      return;
    }
    memo_[number] = stack_.back();
    if (memo_.size() > kMaxPickledValues) {
      fail(fmt::format("keeps more than {} values", kMaxPickledValues));
    }
  }

  void use_again(std::uint64_t number) {
    const auto kept = memo_.find(number);
    if (kept == memo_.end()) {
      fail(fmt::format("value {} was not kept", number));
      return;
    }
    push(kept->second);
  }

  void count_reference() {
    if (++references_ > 2 * kMaxPickledValues) {
      fail(fmt::format("more than {} references to values", 2 * kMaxPickledValues));
    }
  }

  void push(Id id) {
    count_reference();
    if (good()) {
      stack_.push_back(id);
    }
  }

  void make(PickleKind kind, std::int64_t number) {
    if (pickle_.values_.size() >= kMaxPickledValues) {
      fail(fmt::format("more than {} values", kMaxPickledValues));
      return;
    }
    pickle_.values_.push_back({kind, number});
    push(static_cast<Id>(pickle_.values_.size() - 1));
  }

  void make_collection(PickleKind kind, std::vector<Id> elements) {
    if (good()) {
      make(kind, static_cast<std::int64_t>(pickle_.elements_.size()));
      pickle_.elements_.push_back(std::move(elements));
    }
  }

  // The topmost values, none of which is below the last mark.
  std::vector<Id> pop(std::size_t count) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < floor + count) {
      fail("too few values on the stack");
      return {};
    }
    std::vector<Id> values(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return values;
  }

  std::vector<Id> pop_to_mark() {
    if (marks_.empty()) {
      fail("no mark on the stack");
      return {};
    }
    std::vector<Id> values = pop(stack_.size() - marks_.back());
    marks_.pop_back();
    return values;
  }

  void add_to(PickleKind kind, const std::vector<Id>& values) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (!good()) {
      return;
    }
    if (stack_.size() <= floor || pickle_.kind(stack_.back()) != kind ||
        (kind == PickleKind::kDict && values.size() % 2 != 0)) {
      fail("adds to something that is not there or takes none of it");
      return;
    }
    const Pickle::Value& into = pickle_.values_[stack_.back()];
    std::vector<Id>& elements = pickle_.elements_[static_cast<std::size_t>(into.number)];
    elements.insert(elements.end(), values.begin(), values.end());
  }

  PickleBytes bytes_;
  Status status_;
  std::uint64_t at_ = 0;  // of the instruction
  bool stopped_ = false;
  Pickle pickle_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Id> memo_;
  std::uint64_t references_ = 0;
};

Result<Pickle> Pickle::read(ByteSource& bytes) { return PickleMachine(bytes).run(); }

}  // namespace spillway
