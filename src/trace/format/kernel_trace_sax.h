// The events of a JSON parser turned into the records of a kernel-trace/1 file. Layer: trace.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "trace/checker.h"
#include "trace/format/kernel_trace_fields.h"
#include "trace/visitor.h"

namespace spillway {

// Called by nlohmann::json::sax_parse. Every callback returns whether to go on; where one returned
// false, error() says why, beginning with the JSON path (kernels[12].reads[3]).
// Fields that the format does not know are skipped, whatever they hold.
class KernelTraceSax {
 public:
  // `progress` is called once for every event; both arguments must outlive this.
  KernelTraceSax(TraceVisitor& visitor, const std::function<void()>& progress)
      : visitor_(visitor), progress_(progress) {}

  // What nlohmann::json::sax_parse calls.
  bool null();
  bool boolean(bool value);
  bool number_integer(std::int64_t value);
  bool number_unsigned(std::uint64_t value);
  bool number_float(double value, const std::string& text);
  bool string(std::string& value);
  bool binary(nlohmann::json::binary_t& value);
  bool start_object(std::size_t size);
  bool end_object();
  bool start_array(std::size_t size);
  bool end_array();
  bool key(std::string& name);
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& error);

  [[nodiscard]] const Error& error() const { return error_; }

 private:
  // What encloses the next value.
  enum class Place : std::uint8_t {
    kNothing,
    kDocument,
    kTensors,
    kTensor,
    kKernels,
    kKernel,
    kReads,
    kWrites
  };
  // A scalar as the parser found it.
  struct Value {
    bool is_number = false;
    bool is_whole = false;  // a number without sign, point or exponent
    bool is_flag = false;
    std::string* text = nullptr;
    std::uint64_t whole = 0;
    double number = 0;
    bool flag = false;

    [[nodiscard]] std::string describe() const;  // "a string", for messages
  };

  bool scalar(const Value& value);
  bool set_field(const Value& value);
  bool set_time(double ms, TimeNs least_ns, TimeNs& out);
  bool add_access(const Value& value);
  bool end_tensor();
  bool end_kernel();
  bool end_document();
  bool complete(FieldOwner owner, std::string_view place);
  [[nodiscard]] FieldOwner owner() const;
  [[nodiscard]] std::string record_path() const;
  [[nodiscard]] std::string path() const;
  bool fail_at(std::string_view place, std::string_view what);
  bool fail(std::string_view what) { return fail_at(path(), what); }
  bool wrong_kind(std::string_view found);
  bool accept(const Status& status);

  TraceVisitor& visitor_;
  const std::function<void()>& progress_;
  TraceChecker checker_;
  Error error_{ErrorCode::kInvalidInput, {}};

  Place place_ = Place::kNothing;
  FieldId field_ = FieldId::kOther;  // of the key that was read last
  std::string key_;                  // the same, for messages
  std::uint64_t skip_depth_ = 0;     // open brackets inside a field that is skipped
  std::uint32_t seen_ = 0;           // bit_of each field that the open objects have had

  TraceHeader header_;
  Tensor tensor_;
  Kernel kernel_;
};

}  // namespace spillway
