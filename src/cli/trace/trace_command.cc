// Looks at, converts and makes traces. Layer: cli.
#include "cli/trace/trace_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "cli/complain.h"
#include "cli/trace/trace_generate_command.h"
#include "cli/trace/trace_import_command.h"
#include "cli/trace/trace_info.h"
#include "cli/trace/trace_output.h"
#include "trace/read.h"

namespace spillway {
namespace {

struct InfoOptions {
  std::string trace;
  bool json = false;
};

struct ConvertOptions {
  std::string from;
  std::string to;
};

Status print_info(const InfoOptions& options) {
  const Result<Trace> trace = read_trace(std::filesystem::path(options.trace));
  if (!trace) {
    return tl::unexpected(trace.error());
  }
  if (options.json) {
    fmt::print("{}\n", trace_info_json(*trace, options.trace));
  } else {
    fmt::print("{}", trace_info_text(*trace, options.trace));
  }
  return {};
}

Status convert(const ConvertOptions& options) {
  const Result<Trace> trace = read_trace(std::filesystem::path(options.from));
  if (!trace) {
    return tl::unexpected(trace.error());
  }
  return write_by_name(*trace, options.to);
}

}  // namespace

void add_trace_command(CLI::App& app, int& exit_code) {
  const std::function<void(const Status&)> finish = [&exit_code](const Status& status) {
    exit_code = status ? 0 : complain(status.error());
  };
  CLI::App* trace = app.add_subcommand("trace", "Look at, convert, import and make up traces");
  trace->require_subcommand(1);
  trace->footer(
      "A trace is one training iteration: tensors, and kernels that read and write them.\n"
      "Files are native (.swt) or kernel-trace/1 (.json, .json.gz). A file to read is known by\n"
      "its first bytes; the name of a file to write says its format.\n\n"
      "Examples:\n"
      "  spillway trace info step.swt\n"
      "  spillway trace convert bert-256.json.gz bert-256.swt\n"
      "  spillway trace import kineto.json.gz -o step.swt\n"
      "  spillway trace generate transformer --layers 24 -o step.swt");

  auto info_options = std::make_shared<InfoOptions>();
  CLI::App* info = trace->add_subcommand("info", "Print what a trace holds");
  info->add_option("trace", info_options->trace, "The trace")->required()->type_name("FILE");
  info->add_flag("--json", info_options->json, "One JSON object on one line");
  info->callback([info_options, finish] { finish(print_info(*info_options)); });

  auto convert_options = std::make_shared<ConvertOptions>();
  CLI::App* conversion = trace->add_subcommand("convert", "Write a trace in the other format");
  conversion->footer(
      "The format kernel-trace/1 (.json) has sizes in multiples of 4096, so writing it rounds\n"
      "sizes up. It does not mark scratch memory; a reader takes for scratch what one kernel\n"
      "alone uses.");
  conversion->add_option("from", convert_options->from, "The trace to read")
      ->required()
      ->type_name("FILE");
  conversion->add_option("to", convert_options->to, "The file to write: .swt, .json or .json.gz")
      ->required()
      ->type_name("FILE");
  conversion->callback([convert_options, finish] { finish(convert(*convert_options)); });

  add_trace_import_command(*trace, finish);
  add_trace_generate_command(*trace, finish);
}

}  // namespace spillway
