// Every value that is made, moved or referred to is counted here, so a pickle cannot grow without
// end. Layer: trace.
#include "trace/import/snapshot/pickle_stack.h"

#include <utility>

#include "trace/limits.h"

namespace spillway {

void PickleStack::fail(std::string_view what) {
  if (status_) {
    status_ = make_error(ErrorCode::kInvalidInput, "byte {}: {}", at_, what);
  }
}

void PickleStack::mark() {
  count_reference();
  marks_.push_back(stack_.size());
}

void PickleStack::end() {
  if (stack_.size() != 1 || !marks_.empty()) {
    fail("the pickle ends with something else than one value");
    return;
  }
  pickle_.root_ = stack_.back();
}

Result<Pickle> PickleStack::take() {
  if (!status_) {
    return tl::unexpected(status_.error());
  }
  return std::move(pickle_);
}

void PickleStack::keep(std::uint64_t number) {
  if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) {
    fail("nothing to keep");
    return;
  }
  memo_[number] = stack_.back();
  if (memo_.size() > kMaxPickledValues) {
    fail(fmt::format("keeps more than {} values", kMaxPickledValues));
  }
}

void PickleStack::keep_next() { keep(memo_.size()); }

void PickleStack::use_again(std::uint64_t number) {
  const auto kept = memo_.find(number);
  if (kept == memo_.end()) {
    fail(fmt::format("value {} was not kept", number));
    return;
  }
  push(kept->second);
}

void PickleStack::count_reference() {
  if (++references_ > 2 * kMaxPickledValues) {
    fail(fmt::format("more than {} references to values", 2 * kMaxPickledValues));
  }
}

void PickleStack::push(Id id) {
  count_reference();
  if (good()) {
    stack_.push_back(id);
  }
}

void PickleStack::make_text(std::string_view text) {
  const Result<std::uint32_t> number = pickle_.texts_.add(text);
  if (!number) {
    fail(number.error().message);
    return;
  }
  make(PickleKind::kText, *number);
}

void PickleStack::make(PickleKind kind, std::int64_t number) {
  if (pickle_.values_.size() >= kMaxPickledValues) {
    fail(fmt::format("more than {} values", kMaxPickledValues));
    return;
  }
  pickle_.values_.push_back({kind, number});
  push(static_cast<Id>(pickle_.values_.size() - 1));
}

void PickleStack::make_collection(PickleKind kind, std::vector<Id> elements) {
  if (good()) {
    make(kind, static_cast<std::int64_t>(pickle_.elements_.size()));
    pickle_.elements_.push_back(std::move(elements));
  }
}

std::vector<Pickle::Id> PickleStack::pop(std::size_t count) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < floor + count) {
    fail("too few values on the stack");
    return {};
  }
  std::vector<Id> values(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return values;
}

std::vector<Pickle::Id> PickleStack::pop_to_mark() {
  if (marks_.empty()) {
    fail("no mark on the stack");
    return {};
  }
  std::vector<Id> values = pop(stack_.size() - marks_.back());
  marks_.pop_back();
  return values;
}

void PickleStack::add_to(PickleKind kind, const std::vector<Id>& values) {
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

}  // namespace spillway
