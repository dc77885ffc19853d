// How a formula goes over a range. What has a root in the middle has before(tensors, i), which
// reads and writes the states, and after(between, root), the parameter. Included once for each
// processor (targets.h). Layer: optimizer.
#if defined(SPILLWAY_OPTIMIZER_PASSES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPTIMIZER_PASSES_INL
#undef SPILLWAY_OPTIMIZER_PASSES_INL
#else
#define SPILLWAY_OPTIMIZER_PASSES_INL
#endif

#include <algorithm>
#include <cstring>

#include "optimizer/range.h"
#include "optimizer/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

// A range's tensors with their types.
template <class Parameter, class Gradient>
struct Tensors {
  const Parameter* parameter;
  const Gradient* gradient;
  const Parameter* first;
  const Parameter* second;
  const Parameter* max_second;
  Parameter* parameter_out;
  Parameter* first_out;
  Parameter* second_out;
  Parameter* max_second_out;
  Gradient* gradient_out;

  explicit Tensors(const Range& range)
      : parameter(static_cast<const Parameter*>(range.parameter)),
        gradient(static_cast<const Gradient*>(range.gradient)),
        first(static_cast<const Parameter*>(range.first)),
        second(static_cast<const Parameter*>(range.second)),
        max_second(static_cast<const Parameter*>(range.max_second)),
        parameter_out(static_cast<Parameter*>(range.parameter_out)),
        first_out(static_cast<Parameter*>(range.first_out)),
        second_out(static_cast<Parameter*>(range.second_out)),
        max_second_out(static_cast<Parameter*>(range.max_second_out)),
        gradient_out(static_cast<Gradient*>(range.gradient_out)) {}
};

// What is left of a vector at a range's end: copies that fill one, and back.
template <class Parameter, class Gradient>
class Remainder {
 public:
  Remainder(const Tensors<Parameter, Gradient>& all, std::size_t begin, std::size_t count)
      : all_(all), begin_(begin), count_(count) {
    in(all.parameter, parameter_);
    in(all.gradient, gradient_);
    in(all.first, first_);
    in(all.second, second_);
    in(all.max_second, max_second_);
  }
  // The copies, of one vector.
  Range range() {
    Range range;
    range.parameter = range.parameter_out = parameter_;
    range.gradient = gradient_;
    range.gradient_out = all_.gradient_out != nullptr ? gradient_ : nullptr;
    range.first = range.first_out = first_;
    range.second = range.second_out = second_;
    range.max_second = range.max_second_out = max_second_;
    range.count = kLanes;
    return range;
  }
  void write_back() {
    out(parameter_, all_.parameter_out);
    out(gradient_, all_.gradient_out);
    out(first_, all_.first_out);
    out(second_, all_.second_out);
    out(max_second_, all_.max_second_out);
  }

 private:
  template <class T>
  void in(const T* tensor, T* copy) const {
    if (tensor != nullptr) {
      std::memcpy(copy, tensor + begin_, count_ * sizeof(T));
    }
  }
  template <class T>
  void out(const T* copy, T* tensor) const {
    if (tensor != nullptr) {
      std::memcpy(tensor + begin_, copy, count_ * sizeof(T));
    }
  }

  const Tensors<Parameter, Gradient>& all_;
  std::size_t begin_;
  std::size_t count_;
  Parameter parameter_[kLanes] = {};
  Gradient gradient_[kLanes] = {};
  Parameter first_[kLanes] = {};
  Parameter second_[kLanes] = {};
  Parameter max_second_[kLanes] = {};
};

// What a formula carries over the root.
struct Between {
  Vector parameter;
  Vector direction;
  Vector squares;
};

// What needs no root: result(tensors, i).
struct Rootless {
  template <class Formula, class T>
  void operator()(const Formula& formula, const T& tensors, std::size_t elements) const {
    for (std::size_t i = 0; i < elements; i += kLanes) {
      store(formula.result(tensors, i), tensors.parameter_out + i);
    }
  }
};

// IEEE's, where they are needed.
struct CorrectRoots {
  template <class Formula, class T>
  void operator()(const Formula& formula, const T& tensors, std::size_t elements) const {
    for (std::size_t i = 0; i < elements; i += kLanes) {
      const Between between = formula.before(tensors, i);
      store(formula.after(between, formula.round(hn::Sqrt(between.squares))),
            tensors.parameter_out + i);
    }
  }
};

// Blocks that stay in the cache, with roots by somebody else's function. Not small ones: a call of
// MKL's takes a microsecond, and four more where a zero or a subnormal number is among them.
struct CalledRoots {
  SquareRoots function;
  std::int64_t mode;

  template <class Formula, class T>
  void operator()(const Formula& formula, const T& tensors, std::size_t elements) const {
    constexpr std::size_t kBlock = 8192;
    alignas(64) float parameters[kBlock];
    alignas(64) float directions[kBlock];
    alignas(64) float squares[kBlock];
    for (std::size_t block = 0; block < elements; block += kBlock) {
      const std::size_t count = std::min(kBlock, elements - block);
      for (std::size_t i = 0; i < count; i += kLanes) {
        const Between between = formula.before(tensors, block + i);
        store(between.parameter, parameters + i);
        store(between.direction, directions + i);
        store(between.squares, squares + i);
      }
      function(static_cast<int>(count), squares, squares, mode);
      for (std::size_t i = 0; i < count; i += kLanes) {
        const Between between{load(parameters + i), load(directions + i), all(0)};
        store(formula.after(between, load(squares + i)), tensors.parameter_out + block + i);
      }
    }
  }
};

// By itself, since it is called for what is full and for what is left; with the formula's vectors
// as its own, which nothing that it stores can change.
template <class Formula, class T, class Pass>
[[gnu::noinline]] void run_pass(Formula formula, const Pass& pass, const T& tensors,
                                std::size_t count) {
  pass(formula, tensors, count);
}

template <class Parameter, class Gradient, class Formula, class Pass>
void go_over(const Formula& formula, const Pass& pass, const Range& range) {
  using Typed = Tensors<Parameter, Gradient>;
  const Typed tensors(range);
  const std::size_t full = range.count - range.count % kLanes;
  run_pass(formula, pass, tensors, full);
  if (full < range.count) {
    Remainder<Parameter, Gradient> remainder(tensors, full, range.count - full);
    run_pass(formula, pass, Typed(remainder.range()), kLanes);
    remainder.write_back();
  }
}

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
