// Which format a file has, and who is to blame for an error. Layer: trace.
#include "trace/import.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "trace/format/gzip_source.h"
#include "trace/import/importers.h"

namespace spillway {
namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b";

// A source looked at: what it begins with, inflated, and all of it, inflated.
class LookedAt {
 public:
  explicit LookedAt(ByteSource& source) : source_(source) {}

  Result<std::string_view> start() {
    Result<std::string_view> first = source_.next();
    if (!first || !first->starts_with(kGzipMagic)) {
      if (first) {
        all_ = std::make_unique<RewoundSource>(*first, source_);
      }
      return first;
    }
    compressed_ = std::make_unique<RewoundSource>(*first, source_);
    gzip_ = std::make_unique<GzipSource>(*compressed_);
    Result<std::string_view> text = gzip_->next();
    if (text) {
      all_ = std::make_unique<RewoundSource>(*text, *gzip_);
    }
    return text;
  }

  [[nodiscard]] ByteSource& all() { return *all_; }

 private:
  ByteSource& source_;
  std::unique_ptr<RewoundSource> compressed_;
  std::unique_ptr<GzipSource> gzip_;
  std::unique_ptr<RewoundSource> all_;
};

Error with_name(std::string_view name, const Error& error) {
  return {error.code, fmt::format("{}: {}", name, error.message)};
}

Result<OperatorTimes> times_of(const NamedSource& kineto) {
  LookedAt file(kineto.source);
  const Result<std::string_view> start = file.start();
  if (!start) {
    return tl::unexpected(with_name(kineto.name, start.error()));
  }
  if (import_format(*start) != ImportFormat::kKineto) {
    return make_error(ErrorCode::kInvalidInput, "{}: not a Kineto trace", kineto.name);
  }
  return read_operator_times(file.all()).map_error([&](const Error& error) {
    return with_name(kineto.name, error);
  });
}

Result<Imported> import_as(ImportFormat format, ByteSource& file, const OperatorTimes* times,
                           const ImportOptions& options) {
  switch (format) {
    case ImportFormat::kChakra:
      return import_chakra(file, times, options);
    case ImportFormat::kKineto:
      return import_kineto(file, options);
    case ImportFormat::kSnapshot:
      return import_snapshot(file, options);
    case ImportFormat::kNone:
      break;
  }
  return make_error(ErrorCode::kInvalidInput,
                    "neither a Chakra execution trace nor a Kineto trace nor a memory snapshot");
}

}  // namespace

ImportFormat import_format(std::string_view start) {
  struct Mark {
    std::string_view text;
    ImportFormat format;
  };
  static constexpr std::array<Mark, 5> kMarks{{{"\"schema\"", ImportFormat::kChakra},
                                               {"\"nodes\"", ImportFormat::kChakra},
                                               {"\"schemaVersion\"", ImportFormat::kKineto},
                                               {"\"traceEvents\"", ImportFormat::kKineto},
                                               {"\"format\"", ImportFormat::kNone}}};
  if (start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) {
    return ImportFormat::kSnapshot;
  }
  const std::size_t text = start.find_first_not_of(" \t\r\n");
  if (text == std::string_view::npos || start[text] != '{') {
    return ImportFormat::kNone;
  }
  const auto* const first = std::min_element(
      kMarks.begin(), kMarks.end(),
      [start](const Mark& a, const Mark& b) { return start.find(a.text) < start.find(b.text); });
  return start.find(first->text) != std::string_view::npos ? first->format : ImportFormat::kNone;
}

std::string_view describe(ImportFormat format) {
  switch (format) {
    case ImportFormat::kChakra:
      return "a Chakra execution trace";
    case ImportFormat::kKineto:
      return "a Kineto trace";
    case ImportFormat::kSnapshot:
      return "a memory snapshot";
    case ImportFormat::kNone:
      break;
  }
  return "an unknown file";
}

Result<Imported> import_trace(NamedSource file, const NamedSource* kineto,
                              const ImportOptions& options) {
  LookedAt looked_at(file.source);
  const Result<std::string_view> start = looked_at.start();
  if (!start) {
    return tl::unexpected(with_name(file.name, start.error()));
  }
  const ImportFormat format = import_format(*start);
  OperatorTimes times;
  if (kineto != nullptr) {
    if (format != ImportFormat::kChakra) {
      return make_error(ErrorCode::kInvalidInput,
                        "{}: {}; times from {} are for a Chakra execution trace", file.name,
                        describe(format), kineto->name);
    }
    Result<OperatorTimes> found = times_of(*kineto);
    if (!found) {
      return tl::unexpected(found.error());
    }
    times = std::move(*found);
  }
  return import_as(format, looked_at.all(), kineto != nullptr ? &times : nullptr, options)
      .map_error([&](const Error& error) { return with_name(file.name, error); });
}

Result<Imported> import_trace(const std::filesystem::path& file,
                              const std::optional<std::filesystem::path>& kineto,
                              const ImportOptions& options) {
  const auto source = FileSource::open(file);
  if (!source) {
    return tl::unexpected(source.error());
  }
  const std::string name = file.string();
  if (!kineto) {
    return import_trace({**source, name}, nullptr, options);
  }
  const auto with = FileSource::open(*kineto);
  if (!with) {
    return tl::unexpected(with.error());
  }
  const std::string with_file = kineto->string();
  const NamedSource times{**with, with_file};
  return import_trace({**source, name}, &times, options);
}

}  // namespace spillway
