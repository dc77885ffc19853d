// Values put together from the parser's events, and handed over as they end. Layer: trace.
#include "trace/import/json_elements.h"

#include <istream>
#include <limits>
#include <utility>
#include <vector>

#include "trace/format/json_source.h"

namespace spillway {
namespace {

using nlohmann::json;

class ElementSax {
 public:
  using OnElement = std::function<Status(const json&)>;
  using OnField = std::function<Status(const std::string&, const json&)>;

  ElementSax(JsonSource& source, std::string_view list, const OnElement& on_element,
             const OnField& on_field)
      : source_(source), list_(list), on_element_(on_element), on_field_(on_field) {}

  // What nlohmann::json::sax_parse calls.
  bool null() { return scalar(nullptr); }
  bool boolean(bool value) { return scalar(value); }
  bool number_integer(std::int64_t value) { return scalar(value); }
  bool number_unsigned(std::uint64_t value) { return scalar(value); }
  bool number_float(double value, const std::string& /*text*/) { return scalar(value); }
  bool string(std::string& value) {
    text_bytes_ += value.size();
    return scalar(std::move(value));
  }
  bool binary(json::binary_t& /*value*/) { return fail("binary data"); }
  bool start_object(std::size_t /*size*/) { return open(json::object()); }
  bool end_object() { return close(); }
  bool start_array(std::size_t /*size*/) { return open(json::array()); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    source_.note_event();
    text_bytes_ += name.size();
    (open_.empty() ? field_ : key_) = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const json::exception& error) {
    error_ = json_error(position, error.what());
    return false;
  }

  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] bool saw_list() const { return saw_list_; }

 private:
  enum class Place : std::uint8_t { kNothing, kDocument, kList, kDone };

  [[nodiscard]] std::string path() const {
    return place_ == Place::kList       ? fmt::format("{}[{}]", list_, index_)
           : place_ == Place::kDocument ? fmt::format("field {} of the document", fields_)
                                        : "the document";
  }
  bool fail(std::string_view what) {
    error_ = {ErrorCode::kInvalidInput, fmt::format("{}: {}", path(), what)};
    return false;
  }

  // Counts a value towards the limits of the element that it belongs to.
  bool within_limits() {
    source_.note_event();
    if (open_.size() >= kMaxElementDepth) {
      return fail(fmt::format("lists and objects nested more than {} deep", kMaxElementDepth));
    }
    if (++values_ > kMaxElementValues || text_bytes_ > kMaxElementTextBytes) {
      return fail(fmt::format("more than {} values or {} bytes of text", kMaxElementValues,
                              kMaxElementTextBytes));
    }
    return true;
  }

  // Where the next value of the open list or object goes.
  json& slot(json&& value) {
    json& into = *open_.back();
    if (into.is_array()) {
      into.push_back(std::move(value));
      return into.back();
    }
    json& member = into[key_];
    member = std::move(value);
    return member;
  }

  bool scalar(json&& value) {
    if (!within_limits()) {
      return false;
    }
    if (!open_.empty()) {
      slot(std::move(value));
      return true;
    }
    if (place_ == Place::kNothing) {
      return fail("expected an object");
    }
    return hand_over(value);
  }

  bool open(json&& empty) {
    if (!within_limits()) {
      return false;
    }
    if (!open_.empty()) {
      open_.push_back(&slot(std::move(empty)));
      return true;
    }
    if (place_ == Place::kNothing) {
      if (!empty.is_object()) {
        return fail("expected an object");
      }
      place_ = Place::kDocument;
      return true;
    }
    if (place_ == Place::kDocument && field_ == list_) {
      if (!empty.is_array() || saw_list_) {
        return fail(fmt::format("\"{}\" must be one list", list_));
      }
      saw_list_ = true;
      values_ = text_bytes_ = 0;
      place_ = Place::kList;
      return true;
    }
    root_ = std::move(empty);
    open_.push_back(&root_);
    return true;
  }

  bool close() {
    source_.note_event();
    if (!open_.empty()) {
      open_.pop_back();
      return !open_.empty() || hand_over(root_);
    }
    place_ = place_ == Place::kList ? Place::kDocument : Place::kDone;
    return true;
  }

  bool hand_over(const json& value) {
    const bool element = place_ == Place::kList;
    if (!element && field_ == list_) {
      return fail(fmt::format("\"{}\" must be one list", list_));
    }
    const Status status = element ? on_element_(value) : on_field_(field_, value);
    if (!status) {
      error_ = {status.error().code, element ? fmt::format("{}: {}", path(), status.error().message)
                                             : status.error().message};
      return false;
    }
    ++(element ? index_ : fields_);
    values_ = text_bytes_ = 0;
    return true;
  }

  JsonSource& source_;
  const std::string_view list_;
  const OnElement& on_element_;
  const OnField& on_field_;
  Error error_{ErrorCode::kInvalidInput, {}};

  Place place_ = Place::kNothing;
  bool saw_list_ = false;
  std::uint64_t index_ = 0;
  std::uint64_t fields_ = 0;
  std::string field_;  // of the document
  std::string key_;    // of the innermost open object
  json root_;          // the value that is put together
  std::vector<json*> open_;
  std::size_t values_ = 0;
  std::size_t text_bytes_ = 0;
};

const json* member(const json& object, const char* name) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto at = object.find(name);
  return at == object.end() ? nullptr : &*at;
}

}  // namespace

Status read_json_elements(
    ByteSource& text, std::string_view list,
    const std::function<Status(const json& element)>& on_element,
    const std::function<Status(const std::string& name, const json& value)>& on_field) {
  JsonSource source(text);
  std::istream stream(&source);
  ElementSax sax(source, list, on_element, on_field);
  const bool good = json::sax_parse(stream, &sax);
  if (!source.status()) {
    return source.status();
  }
  if (!good) {
    return tl::unexpected(sax.error());
  }
  if (!sax.saw_list()) {
    return make_error(ErrorCode::kInvalidInput, "the document: no list \"{}\"", list);
  }
  return {};
}

const json* list_of(const json& object, const char* name) {
  const json* value = member(object, name);
  return value != nullptr && value->is_array() ? value : nullptr;
}

const json* object_of(const json& object, const char* name) {
  const json* value = member(object, name);
  return value != nullptr && value->is_object() ? value : nullptr;
}

const std::string* text_of(const json& object, const char* name) {
  const json* value = member(object, name);
  return value != nullptr ? value->get_ptr<const std::string*>() : nullptr;
}

std::optional<std::uint64_t> whole(const json& value) {
  return value.is_number_unsigned() ? std::optional(value.get<std::uint64_t>()) : std::nullopt;
}

std::optional<std::uint64_t> whole_of(const json& object, const char* name) {
  const json* value = member(object, name);
  return value != nullptr ? whole(*value) : std::nullopt;
}

std::optional<std::int64_t> integer_of(const json& object, const char* name) {
  const json* value = member(object, name);
  if (value == nullptr || !value->is_number_integer()) {
    return std::nullopt;
  }
  if (const auto natural = whole(*value)) {
    return *natural <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
               ? std::optional(static_cast<std::int64_t>(*natural))
               : std::nullopt;
  }
  return value->get<std::int64_t>();
}

std::optional<double> number_of(const json& object, const char* name) {
  const json* value = member(object, name);
  return value != nullptr && value->is_number() ? std::optional(value->get<double>())
                                                : std::nullopt;
}

}  // namespace spillway
