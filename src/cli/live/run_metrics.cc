// See run_metrics.h.
#include "cli/live/run_metrics.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/output_file.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"
#include "runtime/record/run_records.h"
#include "runtime/report/run_metrics.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// The number behind the last colon of what is no path; empty for what is none.
std::string port_in(const std::string& where) {
  if (where.find('/') != std::string::npos) {
    return {};
  }
  const std::size_t colon = where.rfind(':');
  std::string port = colon == std::string::npos ? where : where.substr(colon + 1);
  return std::all_of(port.begin(), port.end(), [](unsigned char c) { return std::isdigit(c) != 0; })
             ? port
             : std::string();
}

Result<std::uint16_t> number_of(const std::string& where, const std::string& port) {
  const std::size_t colon = where.rfind(':');
  const std::string host = colon == std::string::npos ? std::string() : where.substr(0, colon);
  if (!host.empty() && host != "127.0.0.1" && host != "localhost") {
    return make_error(ErrorCode::kInvalidInput,
                      "--metrics: {}: only the loopback is served, 127.0.0.1:{}; a file of that "
                      "name is ./{}",
                      where, port, where);
  }
  std::uint16_t number = 0;
  if (std::from_chars(port.data(), port.data() + port.size(), number).ec != std::errc()) {
    return make_error(ErrorCode::kInvalidInput, "--metrics: {} is no port; the last is 65535",
                      port);
  }
  return number;
}

// Whole or not at all: who reads it does not wait for us. The name of the draft is none that the
// node exporter looks for.
Status write(const std::string& file, const std::string& text) {
  const std::string draft = fmt::format("{}.{}", file, ::getpid());
  Status written = write_output(draft, text);
  std::error_code error;
  if (written) {
    fs::rename(draft, file, error);
  }
  if (written && !error) {
    return {};
  }
  std::error_code left;
  fs::remove(draft, left);
  return make_error(ErrorCode::kIo, "--metrics: {}",
                    written ? file + ": " + error.message() : written.error().message);
}

Status check_file(const std::string& file) {
  std::error_code error;
  if (const fs::file_status there = fs::status(file, error);
      file == "-" || (fs::exists(there) && !fs::is_regular_file(there))) {
    return make_error(ErrorCode::kInvalidInput,
                      "--metrics: {}: is no file that could be replaced; name one, or a port as "
                      "127.0.0.1:9400",
                      file);
  }
  return check_output(file).map_error([](const Error& why) {
    return Error{why.code, "--metrics: " + why.message};
  });
}

}  // namespace

bool is_metrics_port(const std::string& where) { return !port_in(where).empty(); }

Status check_metrics(const std::string& where) {
  const std::string port = port_in(where);
  const Result<std::uint16_t> number = number_of(where, port.empty() ? "0" : port);
  return port.empty() || number ? Status() : tl::unexpected<Error>(number.error());
}

Result<std::unique_ptr<RunMetrics>> RunMetrics::begin(const std::string& where,
                                                      std::string records) {
  if (where.empty()) {
    return nullptr;
  }
  Descriptor stop(::eventfd(0, EFD_CLOEXEC));
  if (stop.get() < 0) {
    return make_error(ErrorCode::kIo, "--metrics: {}", std::generic_category().message(errno));
  }
  std::optional<MetricsPort> port;
  std::string file;
  if (const std::string number = port_in(where); !number.empty()) {
    Result<MetricsPort> open = number_of(where, number).and_then(MetricsPort::open);
    if (!open) {
      return tl::unexpected<Error>(open.error());
    }
    port.emplace(std::move(*open));
    if (std::stoul(number) == 0) {
      say(fmt::format("metrics at http://127.0.0.1:{}/metrics", port->number()));
    }
  } else {
    Status possible = check_file(where);
    if (possible) possible = write(where, metrics_text({}));
    if (!possible) {
      return tl::unexpected<Error>(possible.error());
    }
    file = where;
  }
  return std::unique_ptr<RunMetrics>(
      new RunMetrics(std::move(stop), std::move(records), std::move(file), std::move(port)));
}

RunMetrics::RunMetrics(Descriptor stop, std::string records, std::string file,
                       std::optional<MetricsPort> port)
    : stop_(std::move(stop)),
      records_(std::move(records)),
      file_(std::move(file)),
      port_(std::move(port)) {
  thread_ = service_thread("spw-metrics", [this] {
    if (port_) {
      port_->answer_until(stop_.get(),
                          [this] { return metrics_text(read_live_records(records_)); });
    } else {
      write_until_stopped();
    }
  });
}

RunMetrics::~RunMetrics() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void RunMetrics::write_until_stopped() {
  constexpr int kEveryMs = 1000;
  pollfd stopped{.fd = stop_.get(), .events = POLLIN, .revents = 0};
  while (::poll(&stopped, 1, kEveryMs) == 0) {
    write_or_say(read_live_records(records_));
  }
  std::vector<LiveRecord> last = read_live_records(records_);
  for (LiveRecord& process : last) {
    process.ended = true;  // or was killed
  }
  write_or_say(last);
}

void RunMetrics::write_or_say(const std::vector<LiveRecord>& processes) {
  const Status written = write(file_, metrics_text(processes));
  if (!written && !failed_) {
    say(written.error().message);
  }
  failed_ = !written;
}

}  // namespace spillway
